"""Constructions of the sets of frames of a batch of clouds, one per kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from equigeo.mds.align import AlignedClouds
from equigeo.mds.options import FrameSet
from equigeo.mds.signs import (
    allowed_signs,
    errors_of_axes,
    residual_signs,
    sign_table,
    soft_weights,
)

# Rotations (frames, dim, dim), their weights, the number of arbitrary axes, whether all are there.
_Found = tuple[Tensor, Tensor, int, bool]


def frames_of_kind(
    kind: str,  # as in equigeo.mds.frames
    aligned: AlignedClouds,
) -> FrameSet:
    """Return the frames of a kind."""
    spanned = {"anchor": anchor_frames, "weighted": weighted_frames, "harmonic": plane_frames}
    if kind in spanned:
        return spanned[kind](aligned)
    if kind == "soft":
        return signed_frames(aligned, soft_weights(aligned))
    if kind == "joint":
        left, settled = residual_signs(aligned)
        return signed_frames(aligned, left.to(aligned.y.dtype), settled)
    return signed_frames(aligned, allowed_signs(aligned).to(aligned.y.dtype))


def joint_signs(aligned: AlignedClouds) -> tuple[AlignedClouds, FrameSet]:
    """Choose signs by joint moments; return clouds and all frames that remain."""
    left, settled = residual_signs(aligned)
    table = sign_table(aligned.dim, aligned.spread)
    chosen = table[left.int().argmax(0)]  # the first that is left
    negative = (table[:, None, :] < 0) & left[..., None]
    positive = (table[:, None, :] > 0) & left[..., None]
    # Ambiguous are axes for which both signs remain.
    ambiguous = negative.any(0) & positive.any(0) & ~aligned.null
    frames = signed_frames(aligned, left.to(aligned.y.dtype), settled)
    return replace(aligned.flipped(chosen), ambiguous=ambiguous), frames


def fallback_frames(aligned: AlignedClouds) -> FrameSet:
    """Return several frames for flagged clouds and one for the others."""
    if aligned.options.fallback == "anchor":
        return anchor_frames(aligned, aligned.doubtful)
    weight = allowed_signs(aligned)
    weight[1:] &= aligned.doubtful
    return signed_frames(aligned, weight.to(aligned.y.dtype))


def signed_frames(
    aligned: AlignedClouds,
    weight: Tensor,  # (2 ** dim, clouds), unnormalized; zero weights are dropped
    # (clouds,), bool: rounding cannot change the weights, by default True
    settled: Tensor | None = None,
) -> FrameSet:
    """Return frames with flipped axes, as many as the cloud with most."""
    first = torch.arange(len(weight), device=weight.device)[:, None] == 0
    weight = torch.where(weight.sum(0) > 0, weight, first.to(weight.dtype))  # clouds of NaN
    used = weight.detach() > 0
    count = int(used.sum(0).amax()) if used.shape[1] else 1
    # Signs in use first, in their order: as many rows as the cloud that needs most.
    order = (~used).int().argsort(stable=True, dim=0)[:count]
    weight = weight.gather(0, order) / weight.sum(0)
    order = torch.where(weight.detach() > 0, order, order[:1])  # repeat one that is in use
    signs = sign_table(aligned.dim, aligned.spread)[order]
    simple = ~aligned.degenerate.any(-1)
    return aligned.frame_set(
        (aligned.y * aligned.clouds.spread_out(s) for s in signs),
        (aligned.frame * s[:, None, :] for s in signs),
        weight,
        exact=simple if settled is None else simple & settled,
        null=aligned.null,
    )


def anchor_frames(
    aligned: AlignedClouds,
    chosen: Tensor | None = None,  # (clouds,), bool; other clouds keep their axes
) -> FrameSet:
    """Return frames spanned by points, at most ``max_frames`` per cloud."""
    _check_dimension("anchor", aligned.dim)
    tol = _tie_tolerance(aligned)
    most = aligned.options.max_frames

    def span(_: int, y: Tensor) -> _Found:
        turns, null = anchor_rotations(y, str(aligned.group), tol)
        exact = len(turns) <= most
        if not exact:
            turns = turns[torch.arange(most, device=turns.device) * len(turns) // most]
        return turns, y.new_full((len(turns),), 1 / len(turns)), null, exact

    return _frames_of_clouds(aligned, span, chosen)


def weighted_frames(aligned: AlignedClouds) -> FrameSet:
    """Return principal frames, with others where spreads tie, weighted continuously."""
    _check_dimension("weighted", aligned.dim)
    begins, mass = aligned.clouds.ptr.tolist(), aligned.clouds.weight
    longer = aligned.spread[:, :-1]
    ratio = aligned.spread[:, 1:] / torch.where(longer == 0, 1, longer)
    gap = torch.where(longer == 0, 1, 1 - ratio.square())
    # Gaps that may be rounding are none.
    gap = gap - aligned.clouds.by_precision(1e-8, 1e-4)
    known = (gap / aligned.options.softness).clamp(0, 1)

    def span(b: int, y: Tensor) -> _Found:
        null = int(aligned.null[b].sum())
        if not bool(y.isfinite().all()):
            identity = torch.eye(aligned.dim, dtype=y.dtype, device=y.device)
            return identity[None], y.new_ones(1), null, True
        own = torch.ones_like(y[:, 0]) if mass is None else mass[begins[b] : begins[b + 1]]
        size = y.detach().abs().amax() if y.numel() else y.new_ones(())
        y = y / torch.where(size == 0, 1, size)
        turns, weight, exact = weighted_turns(y, own, known[b], null, aligned)
        return turns, weight, null, exact

    return _frames_of_clouds(aligned, span)


def plane_frames(aligned: AlignedClouds) -> FrameSet:
    """Return frames rotated in the plane of two axes with equal spread."""
    _check_dimension("harmonic", aligned.dim)
    options, group = aligned.options, str(aligned.group)
    (left, settled), table = residual_signs(aligned), sign_table(aligned.dim, aligned.spread)
    errors = errors_of_axes(aligned)
    begins, weight = aligned.clouds.ptr.tolist(), aligned.clouds.weight
    tol = aligned.clouds.by_precision(1e-9, 1e-5)  # as of joint moments

    # Clouds with a simple spectrum have the frames that joint moments leave, and so do those with
    # more than two equal spreads, which are not exact.
    def turn(b: int, y: Tensor) -> _Found:
        null = int(aligned.null[b].sum())
        turns = torch.diag_embed(table[left[:, b]])
        planes = aligned.degenerate[b].nonzero()[:, 0].tolist()
        found = not planes and bool(settled[b])
        if len(planes) == 1:
            first, mass = planes[0], None if weight is None else weight[begins[b] : begins[b + 1]]
            flips = signs_across(y, mass, first, group, (tol, errors[b]))
            turns = plane_rotations(y.new_zeros(1), first, flips, group)
            # Left-handed frames, or signs across the plane, go with every angle.
            most = options.max_frames // len(turns)
            angles = harmonic_angles(y, mass, first, most, (tol, errors[b]))
            found = angles is not None
            if angles is not None:
                turns = plane_rotations(angles, first, flips, group)
        return turns, y.new_full((len(turns),), 1 / len(turns)), null, found

    return _frames_of_clouds(aligned, turn)


def _tie_tolerance(aligned: AlignedClouds) -> float:
    """Return a tolerance well above coordinate rounding and well below visible differences."""
    return aligned.clouds.by_precision(1e-6, 1e-3)


def _check_dimension(kind: str, dim: int) -> None:
    if dim > 3:
        raise ValueError(f"{kind} frames are for at most 3 dimensions, got {dim}")


def _frames_of_clouds(
    aligned: AlignedClouds, find: Callable[[int, Tensor], _Found], chosen: Tensor | None = None
) -> FrameSet:
    """Return frames of each selected cloud; the others keep their axes."""
    dim, found, null = aligned.dim, [], aligned.null.clone()
    exact = null.new_ones(len(null))
    for b, (begin, end) in enumerate(pairwise(aligned.clouds.ptr.tolist())):
        if chosen is not None and not bool(chosen[b]):
            identity = torch.eye(dim, dtype=aligned.y.dtype, device=aligned.y.device)
            found.append((identity[None], identity.new_ones(1)))
            continue
        turns, weight, arbitrary, exact[b] = find(b, aligned.y[begin:end])
        null[b] = torch.arange(dim, device=null.device) >= dim - arbitrary
        found.append((turns, weight))
    return _turned_frames(aligned, found, exact, null)


def _turned_frames(
    aligned: AlignedClouds, found: list[tuple[Tensor, Tensor]], exact: Tensor, null: Tensor
) -> FrameSet:
    """Return frames rotated per cloud, with different numbers of rotations."""
    count = max((len(turns) for turns, _ in found), default=1)
    turns = aligned.frame.new_zeros(count, *aligned.frame.shape)
    weight = aligned.scale.new_zeros(count, len(found))
    if found:
        padded = [torch.cat([t, t[:1].expand(count - len(t), -1, -1)]) for t, _ in found]
        turns = torch.stack(padded, 1)
        weight = torch.stack([F.pad(own, (0, count - len(own))) for _, own in found], 1)
    return aligned.frame_set(
        (aligned.seen_in(turn) for turn in turns),
        (aligned.frame @ turn for turn in turns),
        weight,
        exact=exact,
        null=null,
    )


PARALLEL = 1e-3
"""Points whose distance from a line is less than this part of the radius do not span a plane."""

# Odd in the coordinate across the plane and even in the distance from its axis, by degree.
_ODD_MOMENTS = ((3, 0), (1, 2), (5, 0), (3, 2), (1, 4))

# Pairs whose areas are compared at a time: 32 MiB of cross products in float64.
_PAIRS_AT_A_TIME = 2**20


def anchor_rotations(
    y: Tensor,  # (points, dim), one centered cloud, dim at most 3
    group: str,  # "O" or "SO"
    tol: float,  # relative tolerance of equal radii
) -> tuple[Tensor, int]:  # (frames, dim, dim), axes as columns
    """Return frames of the outermost pairs of points, and the number of arbitrary last axes."""
    dim = y.shape[-1]
    radius = y.norm(dim=-1)
    largest = radius.detach().amax() if len(y) else y.new_zeros(())
    identity = torch.eye(dim, dtype=y.dtype, device=y.device)
    if not bool(largest > 0):
        return identity[None], dim
    outer = (radius.detach() >= largest * (1 - tol)).nonzero()[:, 0]
    outer = outer[_first_of_copies(y.detach()[outer], tol * largest)]
    first = y[outer] / radius[outer, None]
    if dim == 1 and group == "SO":
        return identity[None], 0
    if dim < 3:
        return _spanned(first, first, group), 0
    # The first point is one of the farthest from the centroid. Of the points not collinear with it,
    # the second is farthest out, then farthest from the line. Copies of a point count once.
    pairs = _pairs(y.detach(), first.detach(), radius.detach(), largest, tol)
    if not len(pairs):
        return along_line(first), 2
    return _spanned(first[pairs[:, 0]], y[pairs[:, 1]], group), 0


def _pairs(y: Tensor, first: Tensor, radius: Tensor, largest: Tensor, tol: float) -> Tensor:
    """Return indices of the first point among the outermost, and of the second among all."""
    along = first @ y.mT
    across = (y - along[..., None] * first[:, None, :]).norm(dim=-1)
    able = across >= PARALLEL * largest
    # Ties are broken by a second length; pairs that tie in both each span a frame.
    for length in (radius.expand_as(across), across):
        length = torch.where(able, length, -1)
        able = able & (length >= length.amax() - tol * largest)
    seconds = able.any(0).nonzero()[:, 0]
    seconds = seconds[_first_of_copies(y[seconds], tol * largest)]
    pairs = able[:, seconds].nonzero()
    return torch.stack([pairs[:, 0], seconds[pairs[:, 1]]], -1)


def _first_of_copies(points: Tensor, distance: Tensor) -> Tensor:
    """Return which of (points, dim) have no earlier point within a distance."""
    near = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist") <= distance
    return ~near.tril(-1).any(1)


def handed_frames(
    columns: list[Tensor],  # (frames, dim) per axis of right-handed frames
    group: str,
) -> Tensor:  # (frames or 2 frames, dim, dim), axes as columns
    """Stack axes into right-handed frames, and for O also left-handed ones."""
    right = torch.stack(columns, -1)
    if group == "SO":
        return right
    return torch.cat([right, torch.stack([*columns[:-1], -columns[-1]], -1)])


def along_line(
    first: Tensor,  # (points, 3), directions along one line
) -> Tensor:  # (1 or 2, 3, 3)
    """Return one frame per end of a line that has a point, with arbitrary last two axes."""
    signs = (first * first[:1]).sum(-1).sign().unique()
    least = first[0].detach().abs().argmin()
    # The coordinate axis that is least parallel: its cross product cannot vanish.
    helper = torch.nn.functional.one_hot(least, 3).to(first)
    b = torch.linalg.cross(first[0], helper)
    b = b / b.norm()
    frames = [
        torch.stack([s * first[0], b, s * torch.linalg.cross(first[0], b)], -1) for s in signs
    ]
    return torch.stack(frames)


def harmonic_angles(
    y: Tensor,  # (points, dim), one centered cloud in principal axes
    weight: Tensor | None,  # (points,)
    first: int,  # first axis of the plane; the second is the next one
    most: int,  # largest m
    # tolerance relative to the sum of magnitudes, and coordinate errors (dim,)
    bounds: tuple[float, Tensor],
) -> Tensor | None:  # (m,)
    """Return angles of the directions that the points distinguish in a plane, or None."""
    tol, errors = bounds[0], bounds[1].tolist()
    in_plane = max(errors[first : first + 2])
    z = torch.complex(y[:, first], y[:, first + 1]) / y.detach().abs().amax()
    power = torch.ones_like(z) if weight is None else weight.to(z)
    # What lies across the plane counts with even powers: its own sign is not known.
    factors = [(torch.ones_like(y[:, 0]), 0.0), (z.detach().abs().square(), 2 * in_plane)]
    if y.shape[1] > 2:
        across = _across(first)
        factors.append((y.detach()[:, across].square(), 2 * errors[across]))
    # With z = y_k + i y_{k+1}, the sum of q z^m rotates by m times the angle of a rotation of the
    # cloud. The smallest m with a nonzero sum, for an invariant factor q, leaves m equivalent
    # directions.
    for m in range(1, most + 1):
        power = power * z
        for n, (factor, error) in enumerate(factors):
            if (m, n) == (2, 0):  # equal spreads are why there is a plane: what is left is rounding
                continue
            total, size = (factor * power).sum(), (factor * power).detach().abs().sum()
            if bool(total.detach().abs() > max(tol, m * in_plane + error) * size):
                turns = torch.arange(m).to(y) * (2 * math.pi / m)
                return total.angle() / m + turns
    return None


def plane_rotations(
    angles: Tensor,  # (angles,), between the first axes of plane and frame
    first: int,  # first axis of the plane; the second is the next one
    flips: list[float],  # signs of the axis across the plane; empty in 2D
    group: str,  # "O" or "SO"
) -> Tensor:  # (frames, dim, dim), axes as columns
    """Return rotations of principal axes within a plane, for every angle and allowed sign."""
    dim, across = (3 if flips else 2), _across(first)
    found = []
    for sense in (1.0, -1.0):
        for flip in flips or [1.0]:
            if group == "SO" and sense * flip < 0:
                continue
            turn = angles.new_zeros(len(angles), dim, dim)
            turn[:, first, first] = angles.cos()
            turn[:, first + 1, first] = angles.sin()
            turn[:, first, first + 1] = -sense * angles.sin()
            turn[:, first + 1, first + 1] = sense * angles.cos()
            if dim == 3:
                turn[:, across, across] = flip
            found.append(turn)
    return torch.cat(found)


def signs_across(
    y: Tensor,  # arguments as in harmonic_angles and plane_rotations
    weight: Tensor | None,
    first: int,
    group: str,
    bounds: tuple[float, Tensor],
) -> list[float]:
    """Return the signs of the axis across a plane with a positive odd moment, or both if none."""
    if y.shape[1] == 2:
        return []
    y = y.detach()
    across = y[:, _across(first)]
    # A flat cloud has both signs for right-handed frames, else 1.
    if not bool(across.any()):
        return [1.0, -1.0] if group == "SO" else [1.0]
    size = y.abs().amax()
    height, radius = across / size, y[:, first : first + 2].norm(dim=1) / size
    tol, errors = bounds[0], bounds[1].tolist()
    in_plane, above = max(errors[first : first + 2]), errors[_across(first)]
    for odd, even in _ODD_MOMENTS:
        terms = height**odd * radius**even
        terms = terms if weight is None else weight * terms
        total = terms.sum()
        bound = max(tol, odd * above + even * in_plane)
        if bool(total.abs() > bound * terms.abs().sum()):
            return [float(total.sign())]
    return [1.0, -1.0]


def _across(first: int) -> int:
    """Return the axis of space across a plane."""
    return ({0, 1, 2} - {first, first + 1}).pop()


# m and the power of the distance from the axis, for the angular moments that direct a plane.
_PLANE_MOMENTS = ((1, 2), (2, 2), (3, 0), (4, 0))


def weighted_turns(
    y: Tensor,  # (points, dim), one cloud in principal axes, of size one
    mass: Tensor,  # (points,)
    known: Tensor,  # (dim - 1,), share of frames that may depend on the difference of two axes
    null: int,  # number of axes without spread
    aligned: AlignedClouds,  # group and options
) -> tuple[Tensor, Tensor, bool]:  # (frames, dim, dim), (frames,), exactness
    """Return frames with weights that vanish wherever the frame is not continuous."""
    # Principal axes are weighted by the gaps on both sides. The rest goes to frames with one axis
    # across the plane of two equal ones, directed by an angular moment, and what has neither a gap
    # nor a moment to frames spanned by points.
    options, group, dim = aligned.options, str(aligned.group), y.shape[1]
    signed = partial(_softly_signed, y, mass, null, group, options.softness)
    # Frames spanned by points are needed where neither gap is a third of the wanted one.
    some = 1 - (1 - known).prod()
    scale, left = torch.ones_like(some), torch.zeros_like(some)
    if dim > 2:
        scale, left = 1 / some.clamp(min=1 / 3), (1 - 3 * some).clamp(min=0)
    share = scale * known.prod()
    found = []
    if bool(share.detach() > 0):
        identity = torch.eye(dim, dtype=y.dtype, device=y.device)
        found.append(signed(identity[None], share[None], None))
    for first in range(dim - 1):
        others = torch.cat([known[:first], known[first + 1 :]]).prod()
        share = scale * (1 - known[first]) * others
        if bool(share.detach() > 0):
            turns, weight, rest = _directed_planes(y, mass, first, options.softness)
            found.append(signed(turns, share * weight, first))
            left = left + share * rest
    exact = True
    if bool(left.detach() > 0):
        limits = options.softness, options.max_frames, _tie_tolerance(aligned)
        turns, weight, _, exact = weighted_rotations(y, group, *limits)
        found.append((turns, left * weight))
    return torch.cat([t for t, _ in found]), torch.cat([w for _, w in found]), exact


def _directed_planes(
    y: Tensor, mass: Tensor, first: int, softness: float
) -> tuple[Tensor, Tensor, Tensor]:  # (turns, dim, dim), (turns,), ()
    """Return turns to the strongest angular moments in a plane, weights, and the rest to one."""
    z = torch.complex(y[:, first], y[:, first + 1])
    square = y[:, first : first + 2].square().sum(-1)
    moments = []
    for m, power in _PLANE_MOMENTS:
        size = (mass * square ** ((m + power) / 2)).sum()
        moments.append((mass * square ** (power / 2) * z**m).sum() / size)
    strength = torch.stack(moments).abs()
    largest = strength.amax()
    # Moments below half of the strongest have no weight; below a tenth of softness none suffices.
    weight = (strength - largest / 2).clamp_min(0)
    settled = (10 * largest / softness).clamp(max=1)
    weight = settled * weight / torch.where(largest == 0, 1, weight.sum())
    turns, shares = [y.new_zeros(0, y.shape[1], y.shape[1])], [y.new_zeros(0)]
    for (m, _), moment, part in zip(_PLANE_MOMENTS, moments, weight, strict=True):
        if bool(part.detach() > 0):
            angles = moment.angle() / m + torch.arange(m).to(y) * (2 * math.pi / m)
            turns.append(plane_rotations(angles, first, [1.0] * (y.shape[1] - 2), "SO"))
            shares.append((part / m).expand(m))
    return torch.cat(turns), torch.cat(shares), 1 - settled


def _softly_signed(
    y: Tensor,
    mass: Tensor,
    null: int,
    group: str,
    softness: float,
    turns: Tensor,  # (turns, dim, dim), right-handed
    weight: Tensor,  # (turns,)
    given: int | None,  # axis whose sign is not to change
) -> tuple[Tensor, Tensor]:  # (frames, dim, dim), (frames,)
    """Return frames for all signs of the axes of turns, weighted by skewness; none without."""
    dim, table = y.shape[1], sign_table(y.shape[1], y)
    cubes = (y @ turns) ** 3 * mass[:, None]
    total = cubes.abs().sum(1)
    slope = (cubes.sum(1) / torch.where(total == 0, 1, total) / softness).clamp(-1, 1)
    factor = (1 + table[:, None, :] * slope) / 2  # (signs, turns, dim)
    fixed = torch.arange(dim, device=y.device) >= dim - null
    if given is not None:
        fixed[given] = True
    factor = torch.where(fixed, (table[:, None, :] > 0).to(y.dtype), factor)
    if group == "SO":  # the last axis makes frames right-handed
        right = (table.prod(-1) > 0).to(y.dtype)[:, None, None]
        factor = torch.cat([factor[..., :-1], right.expand(-1, len(turns), 1)], -1)
    weight = factor.prod(-1) * weight
    used = weight.detach() > 0
    return (turns * table[:, None, None, :])[used], weight[used]


def weighted_rotations(
    y: Tensor,  # (points, dim), one centered cloud, dim at most 3
    group: str,  # "O" or "SO"
    softness: float,  # tau
    most: int,  # largest number of frames
    tol: float,  # relative tolerance of equal areas
) -> tuple[Tensor, Tensor, int, bool]:  # (frames, dim, dim), (frames,)
    """Return frames of the point pairs with the largest areas, weights, null axes and exactness."""
    dim = y.shape[-1]
    identity = torch.eye(dim, dtype=y.dtype, device=y.device)
    one = y.new_ones(1)
    radius = y.detach().norm(dim=-1)
    if not len(y) or not bool(radius.amax() > 0):
        return identity[None], one, dim, True
    if dim == 1 and group == "SO":
        return identity[None], one, 0, True
    hands = 1 if group == "SO" or dim == 1 else 2
    orders = 2 if dim == 3 else 1
    limit = max(most // (hands * orders), 1)
    if dim == 3:
        points = y[_largest_pairs(y.detach(), limit + 1)]
        size = torch.linalg.cross(points[:, 0], points[:, 1]).norm(dim=-1)
    else:  # (tuples, 1, dim), the outermost points in order
        points = y[radius.topk(min(limit + 1, len(radius))).indices[:, None]]
        size = points[:, 0].norm(dim=-1)
    # A cross product of parallel vectors is a few roundings of the product of their lengths.
    if not bool(size[0] > 64 * torch.finfo(y.dtype).eps * radius.amax() ** orders):
        # In space, all points lie on one line through the centroid.
        outer = (radius >= radius.amax() * (1 - 1e-3)).nonzero()[:, 0]
        frames = along_line(y[outer] / y[outer].norm(dim=-1, keepdim=True))
        return frames, y.new_full((len(frames),), 1 / len(frames)), 2, True
    # w_ij = max(A_ij - t, 0)^2 with t = max((1 - tau) max A, A_(k+1)), A the area with the centroid
    # and k the allowed number of pairs: pairs enter and leave with weight zero. In 2D, points and
    # distances take their place. Not exact if more than k pairs tie for the largest area.
    weight, exact = _weights(size, softness, limit, tol)
    used = weight.detach() > 0
    points, weight = points[: len(weight)][used], weight[used]
    if dim == 3:
        points, weight = torch.cat([points, points.flip(1)]), weight.repeat(2)
    first = points[:, 0] / points[:, 0].norm(dim=-1, keepdim=True)
    frames = _spanned(first, points[:, -1], group)
    weight = weight.repeat(len(frames) // len(weight))
    return frames, weight / weight.sum(), 0, exact


def _weights(size: Tensor, softness: float, limit: int, tol: float) -> tuple[Tensor, bool]:
    """Return the weights of at most ``limit`` sizes in descending order."""
    # Frames of areas below a tenth of the largest would turn too fast to be of use.
    threshold = max(1 - softness, 0.1) * size[0]
    if len(size) > limit:
        threshold = torch.maximum(threshold, size[limit])
    if bool((size[0] - threshold).detach() <= tol * size[0].detach()):
        return torch.ones_like(size[:limit]), False
    return (size[:limit] - threshold).clamp_min(0).square(), True


def _largest_pairs(y: Tensor, count: int) -> Tensor:
    """Return indices (count or fewer, 2) of the pairs with the largest areas, in order."""
    points = len(y)
    value, index = y.new_zeros(0), torch.zeros(0, dtype=torch.long, device=y.device)
    later = torch.arange(points, device=y.device)
    for rows in torch.arange(points, device=y.device).split(max(_PAIRS_AT_A_TIME // points, 1)):
        area = torch.linalg.cross(y[rows, None].expand(-1, points, -1), y.expand(len(rows), -1, -1))
        area = torch.where(later > rows[:, None], area.norm(dim=-1), -1).flatten()
        value = torch.cat([value, area])
        index = torch.cat([index, (rows[:, None] * points + later).flatten()])
        value, best = value.topk(min(count, len(value)))
        index = index[best]
    index = index[value >= 0]
    return torch.stack([index // points, index % points], -1)


def _spanned(a: Tensor, other: Tensor, group: str) -> Tensor:
    """Return frames with unit first axes, in space with the second towards other points."""
    if a.shape[-1] == 1:
        return a[:, :, None]
    if a.shape[-1] == 2:
        return handed_frames([a, torch.stack([-a[:, 1], a[:, 0]], -1)], group)  # a quarter turn
    across = other - (other * a).sum(-1, keepdim=True) * a
    b = across / across.norm(dim=-1, keepdim=True)
    return handed_frames([a, b, torch.linalg.cross(a, b)], group)
