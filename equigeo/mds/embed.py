"""Invariant coordinates of point clouds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equigeo._core.checks import TensorLike, as_tensor
from equigeo._core.tensors import values_readable, without_autocast
from equigeo.mds.align import SCALES, AlignedClouds, CloudRows, align
from equigeo.mds.frame_constructions import fallback_frames, joint_signs
from equigeo.mds.options import DEFAULT, EmbedOptions, FrameSet
from equigeo.mds.signs import axis_stability, labelled_axes

_warned: set[str] = set()


@dataclass(frozen=True, eq=False, repr=False)
class MDSResult:
    r"""Invariant coordinates, and the transformation to reconstruct the points.

    .. math:: y_i = (x_i - c)\, F / \sigma

    Batch axes are those of the points, or one axis over the clouds with ``ptr`` or ``batch``.

    Parameters
    ----------
    y : Tensor, (..., points, dim)
        Coordinates, in the units of the points if not scaled.
    frame : Tensor, (..., dim, dim)
        Axes as columns, in descending order of spread.
    centroid : Tensor, (..., dim)
        c, in the units of the points.
    scale : Tensor, (...)
        σ; 1 without scaling, 0 for coincident points, which are not divided by it.
    spread : Tensor, (..., dim)
        Root of the sum of squared coordinates per axis, before scaling.
    margin : Tensor, (..., dim)
        Statistic in [-1, 1] that determined the sign of each axis, with its previous sign;
        constant.
    gap : Tensor, (..., dim - 1)
        Differences of adjacent eigenvalues, relative to the first; constant.
    null : Tensor, (..., dim), bool
        Axes without spread: zero coordinates and an arbitrary direction.
    ambiguous : Tensor, (..., dim), bool
        Axes with a sign that rounding may change, or less stable than ``options.stability``.
    degenerate : Tensor, (..., dim - 1), bool
        Adjacent axes that rounding may mix.
    group : {"O", "SO", None}
        As given to :func:`embed`.
    frames : FrameSet, optional
        Frames to average over.
    ptr : Tensor, (clouds + 1,), int64, optional
        Offsets of ragged clouds.
    weights : Tensor, (..., points), optional
        Weights of the points, with mask and areas; None if all are equal.

    Examples
    --------
    >>> result = embed(torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]]))
    >>> [round(value, 3) for value in result.eigvals.tolist()]
    [12.964, 3.703]
    """

    y: Tensor
    frame: Tensor
    centroid: Tensor
    scale: Tensor
    spread: Tensor
    margin: Tensor
    gap: Tensor
    null: Tensor
    ambiguous: Tensor
    degenerate: Tensor
    group: str | None
    frames: FrameSet | None = None
    ptr: Tensor | None = None
    weights: Tensor | None = None

    def __repr__(self) -> str:
        flagged = "" if self.y.is_meta else f", flagged={int(self.flagged.sum())}"
        frames = "" if self.frames is None else f", frames={len(self.frames)}"
        return (
            f"MDSResult(y={tuple(self.y.shape)} {self.y.dtype}, clouds={self.scale.numel()}"
            f"{flagged}, group={self.group!r}{frames})"
        )

    @property
    def eigvals(self) -> Tensor:
        """Squares of ``spread``, clamped to finite: eigenvalues of the scatter, (..., dim)."""
        return self.spread.square().clamp(max=torch.finfo(self.spread.dtype).max)

    @property
    def stability(self) -> Tensor:
        """Chances that axes keep place and sign without a random half of the points, (..., dim).

        To first order in the influence of each point. An axis has lost its place if it turns by
        more than 30 degrees; the sign is that of the skewness. About one half if the cloud is
        symmetric under reflection of the axis; one for null axes and without a group.
        """
        if self.group is None:
            return torch.ones_like(self.spread)
        clouds = CloudRows.of(self.y.detach(), None, self.ptr, self.weights)
        return clouds.clouds(axis_stability(clouds.points, clouds)).to(self.y.dtype)

    @property
    def flagged(self) -> Tensor:
        """Mask of clouds, (...), with axes that are ambiguous or degenerate."""
        return self.ambiguous.any(-1) | self.degenerate.any(-1)


def embed(  # noqa: PLR0913 - all by name
    x: TensorLike,
    *,
    mask: TensorLike | None = None,
    ptr: TensorLike | None = None,
    batch: TensorLike | None = None,
    weights: TensorLike | None = None,
    group: str | None = "O",
    sign: str = "skew",
    scale: str = "none",
    options: EmbedOptions = DEFAULT,
) -> MDSResult:
    r"""Embed point clouds invariantly by classical multidimensional scaling.

    .. math:: y_i = (x_i - c)\, F / \sigma

    For points of Euclidean space this is the rotation to principal axes. Raises ``ValueError`` for
    wrong shapes and choices, clouds without weight, and clouds that are not finite or, with
    ``fallback="error"``, flagged. Warns once per process for flagged clouds, integers, and clouds
    that look transposed. Values are not checked in compiled programs.

    ``y`` is invariant under isometries of the group (similarities if scaled) and equivariant under
    permutations, up to rounding divided by the gap, for clouds that are not flagged. No embedding
    that keeps distances can do so for symmetric clouds: average over :func:`frames`. References:
    Torgerson, "Multidimensional scaling: I. Theory and method", 1952; Zhang et al., "Revisiting
    transformation invariant geometric deep learning", 2021.

    Parameters
    ----------
    x : Tensor or ndarray, (..., points, dim), real
        Clouds in any units, or (rows, dim) with ``ptr`` or ``batch``. Integers become float64, with
        a warning; 16-bit types become float32.
    mask : Tensor, (..., points), bool, optional
        False for points to ignore; their coordinates become zero.
    ptr : Tensor, (clouds + 1,), int64, optional
        Offsets of ragged clouds.
    batch : Tensor, (rows,), int64, optional
        Cloud of each row, ascending, instead of ``ptr``; not for compiled programs.
    weights : Tensor, (..., points), optional
        Nonnegative masses, treated as constant; zero is the same as masked.
    group : {"O", "SO", None}
        Orthogonal group, where mirror images have the same embedding; rotations; or neither.
    sign : {"skew", "joint", "index"}
        Make the skewness along each axis positive; also use joint moments, with the remaining signs
        in ``frames`` of the result; or, for labeled points, use the first points that determine
        the axes, which is exact for every cloud but not permutation equivariant.
    scale : {"none", "rms", "max", "lambda1", "rms_dist"}
        σ: 1; root mean square or maximum of the distances from the centroid; root mean square of
        the first coordinate, or of distances between points, with weights as multiplicities.

    Examples
    --------
    >>> path = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]]).double()
    >>> turned = path @ torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]).double() + 5
    >>> torch.allclose(embed(turned).y, embed(path).y)
    True
    """
    check_choices(group=group, sign=sign, scale=scale)
    frames = None
    points = as_tensor(x, "points")
    with without_autocast(points.device.type):
        clouds = CloudRows.of(points, mask, ptr, weights, batch)
        aligned = align(clouds, group, scale, options)
        check_finite(aligned)
        if sign == "joint" and group is not None:
            aligned, frames = joint_signs(aligned)
        if sign == "index" and group is not None:
            aligned = labelled_axes(aligned)
        if options.stability and group is not None:
            unstable = axis_stability(aligned.y, aligned.clouds) < options.stability
            aligned = replace(aligned, ambiguous=aligned.ambiguous | unstable)
        if options.fallback in ("frames", "anchor") and group is not None:
            frames = fallback_frames(aligned)
        if aligned.flagged or sign != "skew" or options.stability:
            report_flagged(aligned)
    weight = aligned.clouds.weight
    names = "centroid", "scale", "spread", "margin", "gap", "null", "ambiguous", "degenerate"
    return MDSResult(
        y=clouds.rows(aligned.y),
        frame=clouds.clouds(aligned.frame),
        **{name: clouds.clouds(getattr(aligned, name)) for name in names},
        group=aligned.group,
        frames=frames,
        ptr=clouds.ptr if clouds.ragged else None,
        weights=None if weight is None else clouds.rows(weight),
    )


def check_choices(*, group: str | None, sign: str, scale: str) -> None:
    """Raise ``ValueError`` for unknown options of :func:`embed`."""
    choices = {
        "group": (group, ("O", "SO", None)),
        "sign": (sign, ("skew", "joint", "index")),
        "scale": (scale, tuple(SCALES)),
    }
    for name, (value, known) in choices.items():
        if value not in known:
            raise ValueError(f"{name} must be one of {known}, got {value!r}")


def check_finite(aligned: AlignedClouds) -> None:
    """Raise for clouds that are not finite, unless the options propagate NaN."""
    if aligned.broken and aligned.options.nan_policy == "raise":
        raise ValueError(
            f"the cloud at {_first(aligned.scale.isnan(), aligned.clouds)} is not finite, as are "
            f'{aligned.broken - 1} others; nan_policy="propagate" makes their embeddings NaN'
        )


def report_flagged(aligned: AlignedClouds) -> None:
    """Warn about flagged clouds, once per process, or raise, depending on the options."""
    fallback = aligned.options.fallback
    if fallback not in ("warn", "error") or not values_readable(aligned.y):
        return
    if fallback == "warn" and "flagged" in _warned:
        return
    flagged = aligned.doubtful
    count = int(flagged.sum())
    if not count:
        return
    text = (
        f"{count} of {len(flagged)} clouds, the first at {_first(flagged, aligned.clouds)}, have "
        "symmetries that leave their axes open: see `ambiguous` and `degenerate`; "
        'fallback="frames" or "anchor" gives frames to average over'
    )
    if fallback == "error":
        raise ValueError(text)
    _warned.add("flagged")
    warnings.warn(text, UserWarning, stacklevel=4)


def _first(which: Tensor, clouds: CloudRows) -> str:
    position = int(which.int().argmax())
    if clouds.ragged or len(clouds.batch) == 1:
        return f"batch index {position}"
    index = torch.unravel_index(torch.tensor(position), clouds.batch) if clouds.batch else ()
    return f"batch index {tuple(int(i) for i in index)}"
