"""Principal axes of clouds with signs, as the options say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import torch
from torch import Tensor

from equigeo.mds.embedding.cloud_rows import PointClouds
from equigeo.mds.embedding.embed_options import EmbedOptions
from equigeo.ops import principal_axes
from equigeo.ops.clouds.axis_flags import dependent_axis

SCALES = {"none": 0, "rms": 1, "lambda1": 2, "rms_dist": 3, "max": 0}
AS_FOUND, EACH, LAST, LEAST = range(4)  # of the op


@dataclass(frozen=True, eq=False)
class Axes:
    """Results of the op, flat.

    Parameters
    ----------
    y : Tensor, (rows, dim)
        Coordinates.
    frame : Tensor, (clouds, dim, dim)
        Axes as columns.
    centroid, spread, margin : Tensor, (clouds, dim)
        As of the result of an embedding.
    scale : Tensor, (clouds,)
        As of the result of an embedding.
    """

    y: Tensor
    frame: Tensor
    centroid: Tensor
    spread: Tensor
    scale: Tensor
    margin: Tensor

    @property
    def null(self) -> Tensor:
        """Axes along which nothing spreads, (clouds, dim), bool."""
        return self.spread.logical_not()

    def signed(self, sign: Tensor, clouds: PointClouds) -> Axes:
        """Turn axes around.

        Parameters
        ----------
        sign : Tensor, (clouds, dim)
            1 or -1.
        clouds : PointClouds
            What the axes are of.

        Returns
        -------
        Axes
            With other coordinates, frames and margins.
        """
        return replace(
            self,
            y=self.y * clouds.spread_out(sign),
            frame=self.frame * sign[:, None, :],
            margin=self.margin * sign,
        )


def find_axes(clouds: PointClouds, group: str | None, scale: str, options: EmbedOptions) -> Axes:
    """Rotate clouds to their principal axes.

    Parameters
    ----------
    clouds : PointClouds
        Points.
    group : {"O", "SO", None}
        Which rotations are divided out.
    scale : str
        A key of ``SCALES``.
    options : EmbedOptions
        The rest.

    Returns
    -------
    Axes
        With signs by skewness, or by what the options name.
    """
    plain = options.odd_stat == "cubic" and options.translation
    signs = EACH if group == "O" else right_handed(options)
    exact = 1e-10 if clouds.points.dtype == torch.float64 else 1e-6
    smoothing = exact if options.grad == "exact" else inf
    found = principal_axes(
        clouds.points,
        clouds.ptr,
        clouds.weight,
        options.translation,
        AS_FOUND if group is None else signs if plain else EACH,
        SCALES[scale],
        options.null_tol * clouds.eps,
        smoothing,
    )
    y, frame, centroid, spread, size, margin = found
    axes = Axes(y, frame, centroid, spread, size[:, 0], margin)
    if group is None:
        axes = _rotated_back(axes, clouds)
    elif not plain:
        margin = odd_margins(axes, clouds, options)
        axes = replace(axes, margin=margin)
        axes = axes.signed(choose_signs(axes, signs), clouds)
    return _divided_by_largest(axes, clouds) if scale == "max" else axes


def right_handed(options: EmbedOptions) -> int:
    """Rule for the axis that makes frames right-handed.

    Parameters
    ----------
    options : EmbedOptions
        Which of the two.

    Returns
    -------
    int
        Of the op.
    """
    return LAST if options.dependent == "last" else LEAST


def _rotated_back(axes: Axes, clouds: PointClouds) -> Axes:
    """Undo the rotation, so that its derivative cancels too."""
    frame = axes.frame
    back = (axes.y[:, None, :] * clouds.spread_out(frame)).sum(-1)
    identity = torch.eye(frame.shape[-1], dtype=frame.dtype, device=frame.device)
    return replace(
        axes, y=back, frame=identity.expand_as(frame), margin=torch.ones_like(axes.margin)
    )


def _divided_by_largest(axes: Axes, clouds: PointClouds) -> Axes:
    # Squares of distances that are no longer than one neither overflow nor vanish.
    first = axes.spread[:, 0].detach()
    first = torch.where(first == 0, 1, first)
    square = (axes.y / clouds.spread_out(first)[:, None]).square().sum(-1)
    largest = clouds.largest(square)
    some = largest > 0
    size = torch.where(some, torch.where(some, largest, 1).sqrt(), 0) * first
    divisor = torch.where(some, size, 1)
    return replace(axes, y=axes.y / clouds.spread_out(divisor)[:, None], scale=size)


def odd_margins(axes: Axes, clouds: PointClouds, options: EmbedOptions) -> Tensor:
    """Standardised odd statistics of the coordinates along each axis.

    Parameters
    ----------
    axes : Axes
        Coordinates.
    clouds : PointClouds
        Their offsets and weights.
    options : EmbedOptions
        Which statistic; about the origin it is the sum, unless that vanishes.

    Returns
    -------
    Tensor, (clouds, dim)
        From -1 to 1, constant.
    """
    spread = torch.where(axes.null, 1, axes.spread)
    y = (axes.y.detach() / clouds.spread_out(spread.detach())).double()
    if options.odd_stat == "largest":
        up, down = (
            torch.stack([clouds.largest(column) for column in side.clamp(min=0).unbind(-1)], -1)
            for side in (y, -y)
        )
        margin = (up - down) / _or_one(torch.maximum(up, down))
    else:
        power = {"quadratic": 2, "cubic": 3, "quintic": 5}[options.odd_stat]
        margin = _power_margin(y, power, clouds)
    if not options.translation:
        first = _power_margin(y, 1, clouds)
        margin = torch.where(first.abs() > sign_tolerance(clouds, options), first, margin)
    return margin.to(axes.y.dtype)


def _power_margin(y: Tensor, power: int, clouds: PointClouds) -> Tensor:
    terms = y.sign() * y.abs() ** power
    if clouds.weight is not None:
        terms = clouds.weight.double()[:, None] * terms
    return clouds.add_up(terms) / _or_one(clouds.add_up(terms.abs()))


def _or_one(x: Tensor) -> Tensor:
    return torch.where(x == 0, 1, x)


def sign_tolerance(clouds: PointClouds, options: EmbedOptions) -> float:
    """Margin below which a sign is ambiguous whatever the spectrum.

    Parameters
    ----------
    clouds : PointClouds
        Whose type decides.
    options : EmbedOptions
        What may override it.

    Returns
    -------
    float
        The bound.
    """
    if options.sign_tol is not None:
        return options.sign_tol
    return 1e-9 if clouds.eps == torch.finfo(torch.float64).eps else 1e-5


def choose_signs(axes: Axes, signs: int) -> Tensor:
    """Signs that make margins positive, and frames right-handed where they must be.

    Parameters
    ----------
    axes : Axes
        With margins.
    signs : int
        Rule of the op.

    Returns
    -------
    Tensor, (clouds, dim)
        1 or -1.
    """
    sign = torch.where(axes.margin < 0, -1.0, 1.0).to(axes.margin.dtype)
    if signs in (LAST, LEAST):
        left = torch.linalg.det(axes.frame * sign[:, None, :]) < 0
        flip = dependent_axis(axes.margin, axes.null, signs) & left[:, None]
        sign = torch.where(flip, -sign, sign)
    return sign
