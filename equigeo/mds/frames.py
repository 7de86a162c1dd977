"""Sets of frames to average over."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import torch
from torch import Tensor

from equigeo._core.checks import TensorLike, as_tensor, kind_of
from equigeo._core.tensors import without_autocast
from equigeo.mds.align import CloudRows, align
from equigeo.mds.embed import check_choices, check_finite
from equigeo.mds.frame_constructions import frames_of_kind
from equigeo.mds.options import DEFAULT, EmbedOptions, FrameKind, FrameSet

KINDS = get_args(FrameKind)[1:]  # without that of a single frame


def frames(  # noqa: PLR0913 - all by name
    x: TensorLike,
    *,
    kind: str = "joint",
    mask: TensorLike | None = None,
    ptr: TensorLike | None = None,
    batch: TensorLike | None = None,
    weights: TensorLike | None = None,
    group: str = "O",
    scale: str = "none",
    options: EmbedOptions = DEFAULT,
) -> FrameSet:
    """Return all frames of clouds among which none can be chosen invariantly.

    Arguments without description: see :func:`equigeo.mds.embed`. No warnings: see ``exact``.

    Parameters
    ----------
    kind : {"joint", "frames", "soft", "harmonic", "anchor", "weighted"}
        Kind of frames. Averages are invariant and continuous as follows.

        ``joint``: principal axes with the signs that joint moments of degrees 3 to 6 leave, one
        frame for a generic cloud. Exact for simple spectra; discontinuous where a decisive moment
        vanishes and where eigenvalues cross.

        ``frames``: principal axes with all signs, in 3D 8 or, for SO, 4. Exact and continuous for
        simple spectra.

        ``soft``: as ``frames``, weighted by skewness: a single frame if every skewness exceeds
        ``options.softness``. Exact and continuous for simple spectra.

        ``harmonic``: as ``joint``; for two equal eigenvalues, the axes in their plane follow from
        the lowest nonzero angular moment, m frames for m-fold symmetry. Exact unless all three are
        equal or more than ``options.max_frames`` frames are needed; discontinuous; at most 3
        dimensions.

        ``anchor``: frames spanned by the outermost points. Exact for every cloud with at most
        ``options.max_frames`` frames; discontinuous; at most 3 dimensions.

        ``weighted``: frames spanned by the pairs of points with the largest areas, within
        ``options.softness`` of the largest, with weights that increase with the area. Exact and
        continuous for every cloud that is not on a line, unless more than ``options.max_frames``
        frames tie for the largest area; at most 3 dimensions.
    group : {"O", "SO"}
        Whether frames may be left-handed.

    Equivariance
    ------------
    The weighted set rotates with the points; coordinates are an invariant set.

    References
    ----------
    Puny et al., "Frame averaging for invariant and equivariant network design", 2022; Dym, Lawrence
    and Siegel, "Equivariant frames and the impossibility of continuous canonicalization", 2024.

    Examples
    --------
    >>> import torch
    >>> cube = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0]).double()] * 3)
    >>> found = frames(cube, kind="anchor", group="SO")
    >>> len(found), bool(found.exact), bool(frames(cube, kind="frames").exact)
    (48, True, False)
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")
    if group not in ("O", "SO"):
        raise ValueError(f'group must be "O" or "SO", got {group!r}')
    check_choices(group=group, sign="skew", scale=scale)
    points = as_tensor(x, "points")
    with without_autocast(points.device.type):
        clouds = CloudRows.of(points, mask, ptr, weights, batch)
        aligned = align(clouds, group, scale, options)
        check_finite(aligned)
        return frames_of_kind(kind, aligned)


def draw_frames(frames: FrameSet, *, generator: torch.Generator | None = None) -> FrameSet:
    """Sample a frame per cloud by weight and return all its fields."""
    # The expectation of a function of the coordinates is its average over the frames.
    if not isinstance(frames, FrameSet):
        raise TypeError(f"frames must be a FrameSet, got {kind_of(frames)}")
    weight = frames.weight.reshape(len(frames), -1)
    drawn = torch.multinomial(weight.mT, 1, generator=generator)[:, 0]
    of_rows = drawn if frames.ptr is None else drawn.repeat_interleave(frames.ptr.diff())
    ragged = frames.ptr is not None
    return replace(
        frames,
        y=_taken(frames.y, of_rows, axes=1 if ragged else 2),
        frame=_taken(frames.frame, drawn, axes=2),
        weight=torch.ones_like(frames.weight[:1]),
    )


def _taken(x: Tensor, drawn: Tensor, axes: int) -> Tensor:
    """Select one frame of (frames, ..., *axes) for each entry of the axes before the last."""
    shape = x.shape[1:]
    x = x.reshape(len(x), len(drawn), *shape[len(shape) - axes :])
    return x[drawn, torch.arange(len(drawn), device=drawn.device)].reshape(1, *shape)
