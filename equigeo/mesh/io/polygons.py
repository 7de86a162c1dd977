"""Triangulation of polygons by ear clipping, for all polygons of a file at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.geometry.connectivity import concatenate_ranges

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]

_THIN = 1e-4  # share of a length or an area; text of six digits may not determine a smaller one
_TIE = 1e-4  # relative difference below which two lengths count as equal
_SMALL = 64  # corners of polygons that need no limit of work
_GROUP = 2**12  # such polygons that are cut together: few enough for the cache
_CHUNK = 2**15  # quads, or pairs of an ear and a corner, in memory at once
_WORK, _WORK_PER_CORNER, _WORK_PER_ROUND = 2**24, 2**8, 2**11  # in pairs
# Kinds of corners: the least kind in a polygon is cut off first.
_CLEAR, _NARROW = 1, 2  # ears; other corners lie near the second kind, or it is a sliver
_FLAT, _BLOCKED, _REFLEX = 3, 4, 5  # no ears; polygons without ears cross themselves
_NONE: Final = np.iinfo(np.int64).max


def triangulate(
    vertices: _Floats,  # (vertices, 3)
    corners: _Ints,  # (sum of sizes,)
    sizes: _Ints,  # (polygons,)
) -> tuple[_Ints, _Ints]:
    """Cut polygons into size - 2 triangles, as positions in ``corners``; return also polygons."""
    # The shape of ears and the length of diagonals decide, and vertex numbers between equals, but
    # not the first corner. Polygons that are not planar are cut in their best-fit plane.
    left = sizes.copy()
    is_left = np.ones(len(corners), bool)
    ears, owners = [], []
    first = np.cumsum(sizes) - sizes
    for large in _groups(sizes):
        places = concatenate_ranges(first[large], sizes[large])
        clipping = _Clipping(vertices[corners[places]], corners[places], sizes[large])
        clipping.run()
        left[large] = clipping.left
        is_left[places] = clipping.is_left
        ears += [places[ear] for ear in clipping.ears]
        owners += [large[clipping.owner[ear[:, 0]]] for ear in clipping.ears]
    places = np.flatnonzero(is_left)
    rest, polygon = _fans(vertices, corners[places], left)
    if not ears:
        return places[rest], polygon
    polygon = np.concatenate([polygon, *owners])
    order = np.argsort(polygon, kind="stable")
    return np.concatenate([places[rest], *ears])[order], polygon[order]


def _groups(sizes: _Ints) -> Iterator[_Ints]:
    """Yield polygons of at least five corners that are cut together."""
    small, large = np.flatnonzero((sizes > 4) & (sizes <= _SMALL)), np.flatnonzero(sizes > _SMALL)
    yield from (small[start : start + _GROUP] for start in range(0, len(small), _GROUP))
    if len(large):
        yield large


def excess_area(
    vertices: _Floats,  # (vertices, 3)
    triangles: _Ints,  # (triangles, 3)
    polygon: _Ints,  # (triangles,) ascending
) -> _Floats:
    """Return the share of the triangles' area that exceeds the polygon's vector area, (groups,)."""
    # Zero for planar polygons that are cut without folds; NaN for those without an area.
    starts = np.append(np.flatnonzero(np.diff(polygon, prepend=-1)), len(polygon))
    parts = [np.zeros(0)]
    for first in range(0, len(starts) - 1, _CHUNK):
        ptr = starts[first : first + _CHUNK + 1]
        parts.append(_excess(vertices, triangles[ptr[0] : ptr[-1]], ptr - ptr[0]))
    return np.concatenate(parts)


def _excess(vertices: _Floats, triangles: _Ints, ptr: _Ints) -> _Floats:
    group = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    with np.errstate(all="ignore"):  # vertices may be infinite, NaN, far apart or equal
        a, b, c = (vertices[corner] for corner in triangles.T)
        sides = np.stack([b - a, c - a])
        size = np.maximum.reduceat(np.abs(sides).max(axis=(0, 2)), ptr[:-1])
        area = np.cross(*sides / size[group][:, None])
        total = np.bincount(group, np.linalg.norm(area, axis=1))
        whole = np.stack([np.bincount(group, column) for column in area.T], axis=1)
        share: _Floats = 1 - np.linalg.norm(whole, axis=1) / total
    return share


def _fans(vertices: _Floats, corners: _Ints, sizes: _Ints) -> tuple[_Ints, _Ints]:
    """Cut quads along a diagonal and all other polygons around their first corner."""
    counts = np.maximum(sizes - 2, 0)
    polygon = np.repeat(np.arange(len(sizes)), counts)
    first = np.cumsum(sizes) - sizes
    second = concatenate_ranges(first + 1, counts)
    fans = np.stack([first[polygon], second, second + 1], axis=1)
    quads = np.flatnonzero(sizes == 4)
    row = np.cumsum(counts) - counts
    for start in range(0, len(quads), _CHUNK):
        part = quads[start : start + _CHUNK]
        number = corners[first[part][:, None] + np.arange(4)]
        part = part[_has_other_diagonal(vertices[number], number)]
        fans[row[part]] = first[part][:, None] + [1, 2, 3]
        fans[row[part] + 1] = first[part][:, None] + [1, 3, 0]
    return fans, polygon


def _has_other_diagonal(
    points: _Floats,  # (quads, 4, 3)
    number: _Ints,  # (quads, 4) vertices
) -> NDArray[np.bool_]:
    """Return whether quads are cut from their second corner to the fourth, (quads,)."""
    with np.errstate(all="ignore"):  # vertices may be infinite, NaN, far apart or equal
        points = points - points[:, :1]
        points /= np.abs(points).max(axis=(1, 2), keepdims=True)
        _, b, c, d = points.transpose(1, 0, 2)
        normal = np.cross(c, d - b)  # twice the vector area
        square = (normal**2).sum(axis=1)
        # Share of one triangle of each cut in the area; below 0 or above 1 it folds over.
        share = (np.stack([np.cross(b, c), np.cross(c - b, d - b)]) * normal).sum(axis=2) / square
        least, other_least = np.minimum(share, 1 - share)
        length, other = (c**2).sum(axis=1), ((d - b) ** 2).sum(axis=1)
        by_number = number.argmin(axis=1) % 2 == 1
        by_length = np.where(np.abs(length - other) <= _TIE * length, by_number, other < length)
        by_share = np.where(np.abs(least - other_least) <= _THIN, by_number, other_least > least)
        is_sound = (least > _THIN) & (other_least > _THIN)
        return np.where(is_sound, by_length, by_share & np.isfinite(square))


def _project(
    points: _Floats,  # (corners, 3)
    ptr: _Ints,  # (polygons,) first corner of each
    after: _Ints,  # (corners,) next corner
    owner: _Ints,  # (corners,) polygon
) -> tuple[_Floats, _Floats]:
    """Return coordinates (corners, 2) in planes, NaN without one, and bounds of their rounding."""
    # In units of the size of each polygon.
    with np.errstate(all="ignore"):  # vertices may be infinite, NaN, far apart or equal
        low, high = np.minimum.reduceat(points, ptr), np.maximum.reduceat(points, ptr)
        offset, size = points - (low / 2 + high / 2)[owner], (high - low).max(axis=1)
        largest = np.maximum.reduceat(np.abs(points).max(axis=1), ptr)
        rounding = 16 * np.finfo(np.float64).eps * (1 + largest / size)
        offset /= size[owner][:, None]
        # Twice the vector area (M. Newell); without one, corners lie on a line or edges cross.
        normal = np.add.reduceat(np.cross(offset, offset[after]), ptr)
        normal[np.linalg.norm(normal, axis=1) <= rounding] = np.nan
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        axis = np.eye(3)[np.abs(normal).argmin(axis=1)]
        x = np.cross(axis, normal)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        y = np.cross(normal, x)
        xy = np.stack([(offset * a[owner]).sum(axis=1) for a in (x, y)], axis=1)
    return xy, rounding


class _Clipping:
    """Polygons of at least five corners as linked lists, and the ears cut off so far."""

    # One row per corner:
    #   xy                      (corners, 2) in the plane of its polygon
    #   before, after           its neighbors among the corners that are left
    #   kind, score             kind of corner, order within the kind
    #   is_left, blocks         not cut off; not clearly convex, so it may lie in an ear
    #   blocker                 one corner in or near its ear, -1 if there is none
    # One row per polygon:
    #   left, rounding          number of corners left; bound of the rounding of `xy`
    #   has_plane               false where corners lie on a line, cancel out or are not finite

    def __init__(self, points: _Floats, corners: _Ints, sizes: _Ints) -> None:
        ptr = np.cumsum(sizes) - sizes
        self.owner = np.repeat(np.arange(len(sizes)), sizes)
        self.before, self.after = _neighbors(ptr, len(points))
        self.xy, self.rounding = _project(points, ptr, self.after, self.owner)
        self.left, self.ears = sizes.copy(), list[_Ints]()
        self.is_left = np.ones(len(points), bool)
        self.has_plane = np.logical_and.reduceat(np.isfinite(self.xy).all(axis=1), ptr)
        self._drop_repeated(points, ptr)
        self.kind = np.full(len(points), _REFLEX)
        self.blocks = np.zeros(len(points), bool)
        self.blocker = np.full(len(points), -1)
        # An odd factor maps numbers of 32 bits one to one, to an order without long slopes.
        self._order = corners * 2654435761 % 2**32
        self.score, self._rank = np.full((2, len(points)), _NONE)
        self._listed, self._key, self._num_active = np.zeros(0, np.int64), np.zeros(0), 0
        self._budget = _WORK + _WORK_PER_CORNER * len(points)

    def _drop_repeated(self, points: _Floats, ptr: _Ints) -> None:
        """Cut off corners at the position of the next one, unless fewer than three remain."""
        repeated = (points == points[self.after]).all(axis=1)
        self.has_plane &= self.left - np.add.reduceat(repeated, ptr, dtype=np.int64) >= 3
        corners = np.flatnonzero(repeated & self.has_plane[self.owner])
        if len(corners):
            self.ears.append(np.stack([self.before[corners], corners, self.after[corners]], axis=1))
            self.is_left[corners] = False
            self.left -= np.bincount(self.owner[corners], minlength=len(self.left))
            kept = np.flatnonzero(self.is_left)
            before, after = _neighbors(np.cumsum(self.left) - self.left, len(kept))
            self.before[kept], self.after[kept] = kept[before], kept[after]

    def run(self) -> None:
        """Cut ears off until each polygon has at most four corners or the work is too much."""
        active = np.flatnonzero(self.is_left & self.has_plane[self.owner])
        active = changed = active[self._is_large(active)]
        while len(active):
            self._measure(changed)
            blocker = self.blocker[active]
            free = active[(blocker >= 0) & ~self.blocks[blocker]]
            self._measure(free)
            self._find_blockers(active, np.concatenate([changed, free]))
            self._budget -= _WORK_PER_ROUND + len(active) // 8
            if self._budget < 0 and self.left.max() > _SMALL:
                break
            ears = self._choose(active)
            changed = self._cut(ears)
            changed = changed[self._is_large(changed)]
            active = active[self.is_left[active] & self._is_large(active)]

    def _is_large(self, corners: _Ints) -> NDArray[np.bool_]:
        return self.left[self.owner[corners]] > 4

    def _measure(self, corners: _Ints) -> None:
        """Determine the kind of corners by their angle, and the score by the shape of the ear."""
        u, w = self.before[corners], self.after[corners]
        a, b = self.xy[corners] - self.xy[u], self.xy[w] - self.xy[corners]
        turn = _cross(a, b)
        lengths = [np.hypot(*side.T) for side in (a, b, self.xy[w] - self.xy[u])]
        slack = self.rounding[self.owner[corners]] * (lengths[0] + lengths[1])
        is_convex = turn > slack
        self.blocks[corners] = turn <= _THIN * lengths[0] * lengths[1]
        self.kind[corners] = np.where(turn >= -slack, _FLAT, _REFLEX)
        self.kind[corners[is_convex]] = _CLEAR
        self.kind[corners[is_convex & self.blocks[corners]]] = _NARROW
        self.blocker[corners] = -1
        with np.errstate(all="ignore"):  # sides of length 0
            # Least for an equilateral triangle; of other corners the sharpest one comes first.
            shape = np.where(
                is_convex,
                np.square(lengths).sum(axis=0) / turn,
                lengths[2] / (lengths[0] + lengths[1]),
            )
            level = np.rint(np.log2(np.nan_to_num(shape)) / _TIE).clip(-(2**30), 2**30)
        self.score[corners] = level.astype(np.int64) * 2**32 + self._order[corners]

    def _find_blockers(self, active: _Ints, corners: _Ints) -> None:
        """Mark ears with other corners inside or near them."""
        corners = corners[self.kind[corners] <= _NARROW]
        if 2 * len(active) < self._num_active or not self._num_active:
            listed = active[self.blocks[active]]
            key = self._sort_key(listed, self.xy[listed, 0])
            order = np.argsort(key, kind="stable")
            self._listed, self._key, self._num_active = listed[order], key[order], len(active)
        if not len(corners) or not len(self._listed):
            return
        margin = 2 * _THIN  # no side is longer than two units
        ends = self.xy[np.stack([self.before[corners], corners, self.after[corners]])]
        (x_low, y_low), (x_high, y_high) = ends.min(axis=0).T - margin, ends.max(axis=0).T + margin
        begin = np.searchsorted(self._key, self._sort_key(corners, x_low))
        counts = np.searchsorted(self._key, self._sort_key(corners, x_high)) - begin
        total = np.cumsum(counts)
        cuts = np.searchsorted(total, np.arange(_CHUNK, int(total[-1]), _CHUNK))
        cuts = np.unique(np.concatenate([[0], cuts, [len(corners)]]))
        for start, stop in pairwise(cuts):
            self._budget -= int(counts[start:stop].sum())
            if self._budget < 0 and self.left.max() > _SMALL:
                return
            rows = np.repeat(np.arange(start, stop), counts[start:stop])
            points = self._listed[concatenate_ranges(begin[start:stop], counts[start:stop])]
            y = self.xy[points, 1]
            pairs = np.flatnonzero((y >= y_low[rows]) & (y <= y_high[rows]) & self.blocks[points])
            self._mark(corners[rows[pairs]], points[pairs])

    def _sort_key(self, corners: _Ints, x: _Floats) -> _Floats:
        """Return keys that order corners by polygon, then by x."""
        return self.owner[corners] + (x + 2) / 4  # x is from -1 to 1

    def _mark(self, ears: _Ints, points: _Ints) -> None:
        """Lower the kind of ears with a point inside or near them, given by pairs."""
        u, w = self.before[ears], self.after[ears]
        rows = np.flatnonzero((points != u) & (points != w) & (points != ears))
        ears, points, u, w = ears[rows], points[rows], u[rows], w[rows]
        place = self.xy[points]
        depth, longest = np.full(len(ears), np.inf), np.zeros(len(ears))
        is_corner = np.zeros(len(ears), bool)  # of holes joined by an edge that is passed twice
        for start, stop in ((u, ears), (ears, w), (w, u)):
            side, offset = self.xy[stop] - self.xy[start], place - self.xy[start]
            length = np.hypot(*side.T)
            depth = np.minimum(depth, _cross(side, offset) / length)
            longest = np.maximum(longest, length)
            is_corner |= (offset == 0).all(axis=1)
        is_near = (depth >= -_THIN * longest) & ~is_corner
        is_inside = (depth >= -self.rounding[self.owner[ears]]) & ~is_corner
        self.kind[ears[is_near]] = np.maximum(self.kind[ears[is_near]], _NARROW)
        self.blocker[ears[is_near]] = points[is_near]
        self.kind[ears[is_inside]] = _BLOCKED
        self.blocker[ears[is_inside]] = points[is_inside]

    def _choose(self, active: _Ints) -> _Ints:
        """Return ears to cut at once, no two of them neighbors; without ears, one corner each."""
        is_first = np.diff(self.owner[active], prepend=-1) != 0
        least = np.minimum.reduceat(self.kind[active], np.flatnonzero(is_first))
        least = least[np.cumsum(is_first) - 1]
        is_best = self.kind[active] == least
        best, is_ear = active[is_best], least[is_best] <= _NARROW
        rank = self._rank
        rank[best] = self.score[best]
        ears = best[is_ear]
        is_lowest = (rank[ears] < rank[self.before[ears]]) & (rank[ears] < rank[self.after[ears]])
        rank[best] = _NONE
        others = best[~is_ear]
        others = others[np.lexsort((self.score[others], self.owner[others]))]
        others = others[np.diff(self.owner[others], prepend=-1) != 0]
        return np.concatenate([ears[is_lowest], others])

    def _cut(self, ears: _Ints) -> _Ints:
        """Cut off ears and return the corners whose angle has changed."""
        u, w = self.before[ears], self.after[ears]
        self.ears.append(np.stack([u, ears, w], axis=1))
        self.after[u], self.before[w] = w, u
        self.is_left[ears] = self.blocks[ears] = False
        np.subtract.at(self.left, self.owner[ears], 1)
        return np.unique(np.concatenate([u, w]))


def _neighbors(ptr: _Ints, count: int) -> tuple[_Ints, _Ints]:
    """Return the corner before and after each one in polygons that begin at ``ptr``."""
    before, after = np.arange(-1, count - 1), np.arange(1, count + 1)
    last = np.append(ptr[1:], count) - 1
    before[ptr], after[last] = last, ptr
    return before, after


def _cross(a: _Floats, b: _Floats) -> _Floats:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
