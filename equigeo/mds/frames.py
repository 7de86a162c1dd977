"""Sets of frames, averages over them, and features along their axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import get_args

import torch
from torch import Tensor

from equigeo._core.checks import TensorLike, as_tensor, kind_of
from equigeo._core.tensors import without_autocast
from equigeo.groups import SO, LinearGroup, O
from equigeo.mds.align import CloudRows, align
from equigeo.mds.embed import MDSResult, check_choices, check_finite
from equigeo.mds.frame_constructions import frames_of_kind
from equigeo.mds.options import DEFAULT, EmbedOptions, FrameKind, FrameSet
from equigeo.reps import Points, Representation

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

    The weighted set rotates with the points; coordinates are an invariant set. References: Puny et
    al., "Frame averaging for invariant and equivariant network design", 2022; Dym, Lawrence and
    Siegel, "Equivariant frames and the impossibility of continuous canonicalization", 2024.

    Parameters
    ----------
    kind : {"joint", "frames", "soft", "harmonic", "anchor", "weighted"}
        Kind of frames. Averages are invariant and continuous as follows.

        * ``joint``: principal axes with the signs that joint moments of degrees 3 to 6 leave, one
          frame for a generic cloud. Exact for simple spectra; discontinuous where a decisive moment
          vanishes and where eigenvalues cross.
        * ``frames``: principal axes with all signs, in 3D 8 or, for SO, 4. Exact and continuous for
          simple spectra.
        * ``soft``: as ``frames``, weighted by skewness: a single frame if every skewness exceeds
          ``options.softness``. Exact and continuous for simple spectra.
        * ``harmonic``: as ``joint``; for two equal eigenvalues, the axes in their plane follow from
          the lowest nonzero angular moment, m frames for m-fold symmetry. Exact unless all three
          are equal or more than ``options.max_frames`` frames are needed; discontinuous; at most 3
          dimensions.
        * ``anchor``: frames spanned by the outermost points. Exact for every cloud with at most
          ``options.max_frames`` frames; discontinuous; at most 3 dimensions.
        * ``weighted``: as ``soft`` where eigenvalues differ, a single frame for most clouds without
          symmetry. Where two nearly coincide, the share of principal axes falls to zero, and frames
          directed by angular moments, up to four per sign, take over; where no moment or gap is
          left, frames spanned by the pairs of points with the largest areas do, with weights that
          increase with the area. Exact and continuous for every cloud, unless it has such a tie and
          more than ``options.max_frames`` frames tie for the largest area; at most 3 dimensions.
    group : {"O", "SO"}
        Whether frames may be left-handed.

    Examples
    --------
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


REDUCTIONS = ("mean", "min", "max")


def frame_average(
    fn: Callable[..., Tensor], frames: FrameSet, *components: Tensor, reduce: str = "mean"
) -> Tensor:
    """Evaluate a function in every frame and average the results.

    Invariant under the group of the frames where they are exact; equivariant under permutations if
    the function is.

    Parameters
    ----------
    fn : callable
        Maps coordinates (..., points, dim) or (rows, dim) to values (..., *) with the batch axes
        first; for ragged clouds one row per cloud or per point.
    frames : FrameSet
        Result of :func:`frames`.
    *components : Tensor, (frames, ...)
        Further arguments of ``fn``, one entry per frame, from :func:`frame_components`.
    reduce : {"mean", "min", "max"}
        Weighted mean, or minimum or maximum over the frames with nonzero weight.

    Examples
    --------
    >>> box = torch.cartesian_prod(*[torch.tensor([-s, s]) for s in (3.0, 2.0, 1.0)])
    >>> first = frame_average(lambda y: y[0], frames(box))
    >>> bool((first.abs() < 1e-6).all())
    True
    """
    if reduce not in REDUCTIONS:
        raise ValueError(f"reduce must be one of {REDUCTIONS}, got {reduce!r}")
    if not isinstance(frames, FrameSet):
        raise TypeError(f"frames must be a FrameSet, got {kind_of(frames)}")
    total: Tensor | None = None
    for y, weight, *seen in zip(frames.y, frames.weight, *components, strict=True):
        value = fn(y, *seen)
        if not isinstance(value, Tensor):
            raise TypeError(f"fn must return a Tensor, got {kind_of(value)}")
        weight = _fitted(weight, value, frames.ptr)
        if reduce == "mean":
            # A frame that is there for another cloud must not even pass on its NaN.
            term = torch.where(weight > 0, weight.to(value.dtype) * value, 0)
            total = term if total is None else total + term
        else:
            limit = torch.inf if reduce == "min" else -torch.inf
            term = torch.where(weight > 0, value, limit)
            pick = torch.minimum if reduce == "min" else torch.maximum
            total = term if total is None else pick(total, term)
    if total is None:
        raise ValueError("there must be at least one frame, got none")
    return total


def _fitted(weight: Tensor, value: Tensor, ptr: Tensor | None) -> Tensor:
    """Reshape weights to broadcast against values."""
    if ptr is not None and len(value) != len(weight):
        weight = weight.repeat_interleave(ptr.diff(), 0)
    if value.shape[: weight.ndim] != weight.shape:
        raise ValueError(
            f"values must begin with the batch axes {tuple(weight.shape)}, "
            f"got shape {tuple(value.shape)}"
        )
    return weight.view((*weight.shape, *(1,) * (value.ndim - weight.ndim)))


def frame_lift(
    h: Tensor,
    frames: FrameSet | MDSResult,
    rep: Representation,
    *,
    power: float = 0.0,
    per_point: bool = False,
) -> Tensor:
    r"""Rotate features from frames to space and average over the frames, (..., dim).

    .. math:: g = \sigma^p \sum_F w_F\, \rho(F)\, h_F

    Equivariant under the group of the frames, where they are exact. Components that a symmetry of
    the cloud forbids, or that depend on the arbitrary directions of null axes, vanish.

    Parameters
    ----------
    h : Tensor, (frames, ..., dim)
        Components along the axes of each frame, with the batch axes of the frames first; without
        the axis of frames for an ``MDSResult``.
    frames : FrameSet or MDSResult
        An ``MDSResult`` has one frame, which suffices for clouds that are not flagged.
    rep : Representation
        Representation of the features: irreps, tensors, or :class:`equigeo.reps.Points` for
        positions, which are also scaled and translated.
    power : float
        p, the power of length of the features in scaled clouds; 1 for positions in any case.
    per_point : bool
        Whether features of ragged clouds belong to points instead of clouds.

    Examples
    --------
    >>> from equigeo.mds import embed
    >>> from equigeo.reps import Irreps
    >>> x = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]], dtype=torch.float64)
    >>> result = embed(x)
    >>> torch.allclose(frame_lift(result.y, result, Irreps("1o")), x - x.mean(0))
    True
    """
    h = as_tensor(h, "features")
    found = TypedFrames.of(frames, per_point)
    if isinstance(frames, MDSResult):
        h = h[None]
    found = found.fit(h, rep, found.weight.shape)
    if isinstance(rep, Points):
        moved = (found.matrix @ torch.where(found.null, 0, h)[..., None])[..., 0]
    else:
        rep = rep.restrict(found.group)
        moved = rep.act(found.matrix, without_arbitrary(h, found.null, rep, found.group))
    lifted = (found.weight.to(h.dtype) * moved).sum(0)
    if isinstance(rep, Points):
        return found.scale * lifted + found.centroid
    return lifted * found.scale**power if power else lifted


def frame_components(
    x: TensorLike,
    frames: FrameSet | MDSResult,
    rep: Representation,
    *,
    power: float = 0.0,
    per_point: bool = False,
) -> Tensor:
    r"""Return components (frames, ..., dim) of features along the axes of frames.

    .. math:: h_F = \sigma^{-p}\, \rho(F)^{-1} x

    The inverse of :func:`frame_lift`, with the same arguments except features ``x`` (..., dim) of
    clouds or points, such as velocities. Invariant as a weighted set where the frames are exact.
    Components that depend on the arbitrary directions of null axes are zero.

    Examples
    --------
    >>> from equigeo.mds import embed
    >>> from equigeo.reps import Irreps
    >>> x = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]], dtype=torch.float64)
    >>> velocity, result = x.flip(0).sin(), embed(x)
    >>> seen = frame_components(velocity, result, Irreps("1o"))
    >>> torch.allclose(frame_lift(seen, result, Irreps("1o")), velocity)
    True
    """
    found = TypedFrames.of(frames, per_point)
    x = as_tensor(x, "features", like=found.matrix)
    found = found.fit(x, rep, found.weight.shape[1:])
    inverse = found.matrix.mT
    if isinstance(rep, Points):
        seen = (inverse @ ((x - found.centroid) / found.scale)[..., None])[..., 0]
        seen = torch.where(found.null, 0, seen)
    else:
        rep = rep.restrict(found.group)
        seen = rep.act(inverse, x / found.scale**power if power else x)
        seen = without_arbitrary(seen, found.null, rep, found.group)
    return seen[0] if isinstance(frames, MDSResult) else seen


@dataclass(frozen=True, eq=False)
class TypedFrames:
    """Frames of clouds or points, as they act on features."""

    matrix: Tensor  # (frames, ..., dim, dim), axes as columns
    weight: Tensor  # (frames, ...)
    null: Tensor  # (..., dim), bool: arbitrary axes
    centroid: Tensor  # (..., dim)
    scale: Tensor  # (...)
    group: LinearGroup  # group of the frames

    @classmethod
    def of(
        cls,
        frames: FrameSet | MDSResult,
        per_point: bool,  # whether to repeat the frames of ragged clouds per point
    ) -> TypedFrames:
        """Build from a set of frames, or from the frame of an embedding."""
        if not isinstance(frames, (FrameSet, MDSResult)):
            raise TypeError(f"frames must be a FrameSet or an MDSResult, got {kind_of(frames)}")
        if isinstance(frames, FrameSet):
            matrix, weight = frames.frame, frames.weight
        else:
            matrix, weight = frames.frame[None], torch.ones_like(frames.scale)[None]
        if frames.group is None:
            raise ValueError(
                "an embedding that keeps rotations, group=None, has no frames to lift by"
            )
        null, centroid, scale = frames.null, frames.centroid, frames.scale
        if frames.ptr is not None and per_point:
            counts = frames.ptr.diff()
            matrix, weight = (t.repeat_interleave(counts, 1) for t in (matrix, weight))
            null, centroid, scale = (
                t.repeat_interleave(counts, 0) for t in (null, centroid, scale)
            )
        dim = matrix.shape[-1]
        group: LinearGroup = O(dim) if frames.group == "O" else SO(dim)
        return cls(matrix, weight, null, centroid, scale, group)

    def fit(
        self,
        x: Tensor,
        rep: Representation,
        lead: tuple[int, ...],  # expected first axes of x
    ) -> TypedFrames:
        """Validate features (*lead, ..., dim) and insert axes to broadcast against them."""
        if not isinstance(rep, Representation):
            raise TypeError(f"rep must be a Representation, got {kind_of(rep)}")
        dim = self.group.n
        length = dim if isinstance(rep, Points) else rep.dim
        if x.shape[: len(lead)] != lead or x.ndim <= len(lead) or x.shape[-1] != length:
            raise ValueError(
                f"features must be ({', '.join(map(str, (*lead, '...', length)))}), "
                f"got {tuple(x.shape)}"
            )
        extra, clouds = (1,) * (x.ndim - len(lead) - 1), self.weight.shape[1:]
        return replace(
            self,
            matrix=self.matrix.view(*self.weight.shape, *extra, dim, dim),
            weight=self.weight.view(*self.weight.shape, *extra, 1),
            null=self.null.view(*clouds, *extra, dim),
            centroid=self.centroid.view(*clouds, *extra, dim),
            scale=self.scale.view(*clouds, *extra, 1),
        )


def without_arbitrary(
    h: Tensor,  # (frames, ..., dim)
    null: Tensor,  # (..., axes), bool, broadcasts against h
    rep: Representation,  # representation of the features
    group: LinearGroup,  # group of the frames
) -> Tensor:
    """Project features onto components that do not depend on the choice of null axes."""
    if not bool(null.any()):
        return h
    dim = null.shape[-1]
    table = torch.stack([_projection(rep, group, count) for count in range(dim + 1)])
    return (table.to(h)[null.sum(-1)] @ h[..., None])[..., 0]


def _projection(rep: Representation, group: LinearGroup, count: int) -> Tensor:
    """Return the projection onto features that elements acting on the last axes fix."""
    dim = group.n
    first = dim - count
    equations = [torch.zeros(1, rep.dim, dtype=torch.float64)]
    for i in range(first, dim):
        for j in range(i + 1, dim):
            turn = torch.zeros(dim, dim, dtype=torch.float64)
            turn[i, j], turn[j, i] = 1, -1
            equations.append(rep.algebra(turn))
    if count and isinstance(group, O):
        mirror = torch.eye(dim, dtype=torch.float64)
        mirror[-1, -1] = -1
        equations.append(rep.matrix(mirror) - torch.eye(rep.dim, dtype=torch.float64))
    # Fixed are those that the generators of the turns annihilate and a mirror leaves as they are.
    _, values, rows = torch.linalg.svd(torch.cat(equations))
    rank = int((values > 1e-9).sum())  # singular values are 0 or of order 1
    kept = rows[rank:]
    return kept.mT @ kept
