"""Nesting depth of the closed parts of a mesh."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.geometry.concatenate_ranges import concatenate_ranges

# A second of work each: pairs of boxes compared, of the largest ones with all, and solid angles
# summed, of parts with few faces first, or these for each face. What is beyond is not nested.
_MOST_BOXES = 20_000_000
_MOST_ANGLES = 5_000_000
_ANGLES_PER_FACE = 16
_AT_ONCE = 500_000
# Share of the sphere around a point that a closed surface covers: 1 inside, 1/2 on a wall, 7/8
# behind a corner that juts in.
_ALL_AROUND = 0.98
_FLAT = 1e-9  # of the product of three lengths: far above rounding
_SAME_AREA = 1e-9  # of the largest: far above rounding
_SAMPLES = 4  # points of a part: the middles of its largest faces


def nesting_depth(
    points: NDArray[np.float64],  # (vertices, 3)
    faces: NDArray[np.int64],  # (faces, 3) consistently wound per part
    part: NDArray[np.int64],  # (faces,)
    closed: NDArray[np.bool_],  # (parts,) parts without boundary
) -> NDArray[np.int64]:
    """Count the closed parts that contain each closed part; 0 for open parts, (parts,)."""
    # A part lies inside another if the other's faces cover the whole sphere, seen from sample
    # points. Solid angles: Van Oosterom and Strackee, "The solid angle of a plane triangle", 1983.
    depth = np.zeros(len(closed), np.int64)
    if closed.sum() < 2:
        return depth
    by_part = np.argsort(part, kind="stable")
    start = np.searchsorted(part[by_part], np.arange(len(closed) + 1))
    corner = points[faces[by_part]]
    used = np.flatnonzero(closed & (np.diff(start) > 0))
    samples = _samples(corner, start)
    inner, outer = _candidates(corner, start, samples, used)
    budget = max(_MOST_ANGLES, _ANGLES_PER_FACE * len(faces))
    # Each further sample is tested only where all previous ones are inside.
    for n in range(_SAMPLES):
        size = np.diff(start)[outer]
        order = np.argsort(size, kind="stable")
        order = order[np.cumsum(size[order]) <= budget]
        inner, outer, size = inner[order], outer[order], size[order]
        budget -= int(size.sum())
        inside = _is_inside(samples[inner, n], corner, start[outer], size)
        inner, outer = inner[inside], outer[inside]
    return np.bincount(inner, minlength=len(closed))


def _samples(corner: NDArray[np.float64], start: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sample points of each part, (parts, samples, 3), the last repeated in small parts."""
    size = np.diff(start)
    area = np.linalg.norm(
        np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1
    )
    # Rounded, so that faces of equal area keep their order in every pose.
    area = np.round(area / (_SAME_AREA * area.max(initial=0.0) or 1.0))
    by_area = np.lexsort((-area, np.repeat(np.arange(len(size)), size)))
    place = start[:-1, None] + np.minimum(np.arange(_SAMPLES), size[:, None] - 1)
    return corner[by_area[place.clip(0)]].mean(2)


def _candidates(
    corner: NDArray[np.float64],
    start: NDArray[np.int64],
    samples: NDArray[np.float64],
    used: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs of parts where the samples of one lie within the bounding box of the other."""
    filled = np.flatnonzero(np.diff(start))
    boxes = np.searchsorted(filled, used)
    low = np.minimum.reduceat(corner.min(1), start[filled])[boxes]
    high = np.maximum.reduceat(corner.max(1), start[filled])[boxes]
    first, last = samples[used].min(1), samples[used].max(1)
    largest = np.argsort(-np.linalg.norm(high - low, axis=1), kind="stable")
    inner, outer = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for n in largest[: max(1, _MOST_BOXES // len(used))]:
        held = (low[n] < first).all(1) & (last < high[n]).all(1)
        held[n] = False
        inner.append(np.flatnonzero(held))
        outer.append(np.full(len(inner[-1]), n))
    return used[np.concatenate(inner)], used[np.concatenate(outer)]


def _is_inside(
    seen: NDArray[np.float64],
    corner: NDArray[np.float64],
    first: NDArray[np.int64],
    size: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Return whether face ranges cover the whole sphere seen from each point, (points,)."""
    covered = np.zeros(len(seen))
    pair = np.repeat(np.arange(len(seen)), size)
    face = concatenate_ranges(first, size)
    for begin in range(0, len(face), _AT_ONCE):
        some = slice(begin, begin + _AT_ONCE)
        angle = _solid_angle(corner[face[some]] - seen[pair[some], None])
        covered += np.bincount(pair[some], angle, len(seen))
    return abs(covered) > _ALL_AROUND * 4 * np.pi


def _solid_angle(corner: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the signed solid angle of triangles seen from the origin."""
    a, b, c = corner.transpose(1, 0, 2)
    la, lb, lc = np.linalg.norm(corner, axis=2).T
    volume = np.einsum("ij,ij->i", a, np.cross(b, c))
    ab, bc, ca = ((x * y).sum(1) for x, y in ((a, b), (b, c), (c, a)))
    angle = 2 * np.arctan2(volume, la * lb * lc + ab * lc + bc * la + ca * lb)
    # In the plane of a triangle it covers nothing or a half, and rounding would choose the side.
    return np.where(abs(volume) > _FLAT * la * lb * lc, angle, 0.0)
