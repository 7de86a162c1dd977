"""Neighbor search in tensor operations, on the device of the points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from equigeo.graphs.backends import ALWAYS_THERE, BYTES_PER_EDGE, check_size, memory_of
from equigeo.graphs.periodic import (
    MARGIN,
    ROUNDINGS,
    check_shifts,
    compact_cell,
    heights,
    square_basis,
    usual_unit,
)
from equigeo.graphs.systems import (
    LARGEST_LENGTH,
    LARGEST_SHIFT,
    Doubles,
    GivenSystems,
    PointSystem,
    independent,
)

# Points, and their images near the compact cell, are sorted by system, by column of the first two
# coordinates (columns are at least a cutoff wide), and by the third coordinate. The neighbors of a
# point lie in nine intervals of this order. Distances are computed in blocks, usually in float32
# with a bound of the rounding; where it leaves doubts, the predicate in float64 on given positions
# decides. The host waits for the numbers of images, of pairs in intervals, of near pairs in each
# block, of doubtful pairs, and of edges.
_AT_ONCE: Final = 2**23  # pairs
_LEVELS: Final = 64  # of the third coordinate per cutoff
_SINGLE: Final = 2.0**12  # extent in cutoffs, beyond which float32 would list many pairs in vain
_COLUMNS: Final = 9  # a column and those around it
_KEY_BITS: Final = 62  # of a system and three coordinates
_NUMBERS_PER_IMAGE: Final = 32
_LARGEST_PRODUCT: Final = 2.0**61  # of shifts that are summed in int64


class Found(NamedTuple):
    """Edges sorted by target, source and shift."""

    source: Tensor  # (edges,)
    target: Tensor  # (edges,)
    shift: Tensor | None  # (edges, 3) int32 lattice vectors added to the target


def closer(vectors: Tensor, cutoff: float) -> Tensor:
    """Return which vectors (rows, dim) are shorter than a cutoff, by the sums of every search."""
    first, *others = vectors.square().unbind(1)
    for square in others:
        first = first + square
    return first < cutoff * cutoff


class Lattices(NamedTuple):
    """Compact cells of all systems in the unit of a search, on a device."""

    # (cells, 14, 3): rows of a cell, of its inverse, of its basis in given vectors and of bounds of
    # its vectors, one by one in given vectors; heights; which axes are periodic.
    table: Tensor
    number: Tensor | None  # (points,) cell of each point; None for one cell
    is_changed: bool  # whether any basis differs from the given vectors

    def rows(self) -> Tensor:
        """Return the table of each point, (points, 14, 3), or (1, 14, 3) for one cell."""
        return self.table if self.number is None else self.table.index_select(0, self.number)


def lattices_of(given: GivenSystems) -> Lattices | None:
    """Validate and compact the cells of systems; None without periodic axes."""
    if not (np.abs(given.cells) <= LARGEST_LENGTH).all():
        given.systems()  # raises
    if not given.periodic:
        return None
    cells = np.where(given.pbc[:, :, None], given.cells, 0.0)
    each = np.concatenate([cells.reshape(-1, 9), given.pbc], axis=1)
    rows, number = np.unique(each, axis=0, return_inverse=True)
    table = np.stack([_table(row[:9].reshape(3, 3), row[9:] > 0, given) for row in rows])
    device, of_points = given.positions.device, None
    if len(rows) > 1 and given.batch is not None:
        of_points = torch.from_numpy(number.reshape(-1)).to(device).index_select(0, given.batch)
    is_changed = bool((table[:, 6:9] != np.eye(3)).any())
    return Lattices(torch.from_numpy(table).to(device), of_points, is_changed)


def _table(cell: Doubles, pbc: np.ndarray, given: GivenSystems) -> Doubles:
    """Return the rows of one cell, (14, 3); raise the error of the systems if it is singular."""
    if not independent(cell[pbc]):
        given.systems()  # raises
    compact, basis = compact_cell(PointSystem(np.zeros((0, 3)), cell, pbc, given.cutoff))
    whole = np.eye(3) if basis is None else square_basis(basis, pbc).astype(np.float64)
    unit = usual_unit(given.cutoff)
    compact = compact * unit
    bounds = np.abs(whole) @ np.abs(cell * unit)
    return np.vstack([compact, np.linalg.inv(compact), whole, bounds, heights(compact), pbc])


class _Space(NamedTuple):
    """Points inside of compact cells and all images near them, sorted by origin and shift."""

    points: Tensor  # (points, dim)
    wraps: Tensor | None  # (points, 3) given lattice vectors subtracted from each point
    images: Tensor  # (images, dim), points among them
    origin: Tensor  # (images,)
    shift: Tensor | None  # (images, 3) of an edge to a point that is not wrapped
    cutoff: float  # in the unit of a search
    limit: float  # the cutoff, enlarged by a rounding bound
    low: list[float]  # (dim,) corners of a box around the points
    top: list[float]


def cell_edges(
    x: Tensor,  # (points, dim) float64, at least one
    cutoff: float,
    batch: Tensor | None,  # (points,)
    systems: int,
    lattices: Lattices | None,
    measure: Callable[[Found], Tensor],  # returns the vectors of pairs in given terms
    refuse: Callable[[], object],  # raises for points that are not finite or too large
    loop: bool = False,  # whether points themselves are edges
) -> Found:
    """Return all edges shorter than the cutoff, bitwise those of the other backends."""
    unit = usual_unit(cutoff)

    def refuse_beyond(largest: float) -> None:
        if not largest <= LARGEST_LENGTH * unit:  # also for NaN
            refuse()

    if lattices is None:
        space = _open_space(x * unit, cutoff * unit, refuse_beyond)
    else:
        space = _periodic_space(x * unit, cutoff * unit, lattices, refuse_beyond)
    bits = (len(space.images) - 1).bit_length()
    parts = [
        (target << bits | image, is_doubtful)
        for target, image, is_doubtful in _blocks(space, batch, systems)
    ]
    keys = torch.cat([part[0] for part in parts])
    rows = torch.cat([part[1] for part in parts]).nonzero().squeeze(1)
    doubtful = keys.index_select(0, rows)
    pairs = _unpacked(doubtful, bits, space)
    is_edge = closer(measure(pairs), cutoff)
    if not loop:
        other = pairs.source != pairs.target
        is_edge &= other if pairs.shift is None else other | pairs.shift.any(1)
    last = torch.iinfo(torch.int64).max
    keys = keys.index_copy(0, rows, doubtful.where(is_edge, last)).sort().values
    count = len(keys) - len(rows) + int(is_edge.sum())
    return _unpacked(keys[:count], bits, space)


def _unpacked(keys: Tensor, bits: int, space: _Space) -> Found:
    image, target = keys & ((1 << bits) - 1), keys >> bits
    source = space.origin.index_select(0, image)
    if space.shift is None or space.wraps is None:
        return Found(source, target, None)
    shift = space.shift.index_select(0, image) - space.wraps.index_select(0, target)
    if shift.dtype == torch.int64 and len(shift):
        check_shifts(float(shift.abs().amax()))
    return Found(source, target, shift.int())


def _open_space(x: Tensor, cutoff: float, refuse_beyond: Callable[[float], None]) -> _Space:
    largest = x.abs().amax()
    limit = cutoff * (1 + MARGIN) + ROUNDINGS * (largest + cutoff)
    (known, reach), low, top = _read([largest, limit], x)
    refuse_beyond(known)
    each = torch.arange(len(x), device=x.device)
    return _Space(x, None, x, each, None, cutoff, reach, low, top)


def _periodic_space(
    x: Tensor, cutoff: float, lattices: Lattices, refuse_beyond: Callable[[float], None]
) -> _Space:
    """Wrap points into compact cells and list their images."""
    table, rows = lattices.table, lattices.rows()
    periodic = rows[:, 13] > 0
    along = _times(x, rows[:, 3:6])
    wraps = along.floor().where(periodic, 0.0)
    points = x - _times(wraps, rows[:, :3])
    largest, farthest = x.abs().amax(), wraps.abs().amax()
    reach = cutoff / table[:, 12] + farthest + 1
    vectors = (reach[:, :, None] * table[:, 9:12]).sum(1).amax()
    limit = cutoff * (1 + MARGIN) + ROUNDINGS * (largest + cutoff + vectors)
    # Fractional coordinates of images lie within the heights that the limit reaches.
    more = limit / rows[:, 12] * (1 + MARGIN) + MARGIN
    along = along - wraps
    low = (-more - along).ceil().where(periodic, 0.0)
    high = (1 + more - along).floor().where(periodic, 0.0)
    copies = high - low + 1
    basis = table[:, 6:9].abs().amax()
    known, bottom, top = _read(
        [largest, limit, farthest, copies.prod(1).sum(), copies.amax(), basis], points
    )
    refuse_beyond(known[0])
    check_shifts(known[2])
    check_size(known[3], _NUMBERS_PER_IMAGE, device=x.device)
    origin, numbers = _numbered(high.long(), copies.long(), int(known[3]))
    of_images = rows if len(rows) == 1 else rows.index_select(0, origin)
    images = points.index_select(0, origin) + _times(numbers.double(), of_images[:, :3])
    own, shift = wraps.long(), wraps.long().index_select(0, origin) - numbers
    largest_shift = 2 * (known[2] + known[4])
    if lattices.is_changed:
        largest_shift *= 3 * known[5]
        if largest_shift > _LARGEST_PRODUCT:
            check_shifts(largest_shift)
        own, shift = _times(own, rows[:, 6:9].long()), _times(shift, of_images[:, 6:9].long())
        order = _sorted_by([shift[:, 2], shift[:, 1], shift[:, 0], origin])
        origin, shift, images = (v.index_select(0, order) for v in (origin, shift, images))
    if largest_shift <= LARGEST_SHIFT:
        own, shift = own.int(), shift.int()
    return _Space(points, own, images, origin, shift, cutoff, known[1], bottom, top)


def _read(sizes: list[Tensor], points: Tensor) -> tuple[list[float], list[float], list[float]]:
    """Return numbers and the corners of a box around points, after one wait for the device."""
    count, dim = len(sizes), points.shape[1]
    values = torch.cat([torch.stack(sizes), points.amin(0), points.amax(0)]).tolist()
    return values[:count], values[count : count + dim], values[count + dim :]


def _times(
    numbers: Tensor,  # (rows, 3)
    matrices: Tensor,  # (rows or 1, 3, 3)
) -> Tensor:
    """Multiply rows by matrices, also integers, for which a GPU has no matmul."""
    first, second, third = (numbers[:, k, None] * matrices[:, k] for k in range(3))
    return first + second + third


def _numbered(
    high: Tensor,  # (points, 3)
    copies: Tensor,  # (points, 3)
    total: int,
) -> tuple[Tensor, Tensor]:
    """Return origin and number of each image, (total,) and (total, 3), numbers falling."""
    counts = copies.prod(1)
    each = torch.arange(len(counts), device=high.device)
    origin = each.repeat_interleave(counts, output_size=total)
    rank = torch.arange(total, device=high.device) - (counts.cumsum(0) - counts)[origin]
    _, second, third = copies.index_select(0, origin).unbind(1)
    steps = [rank // (second * third), rank // third % second, rank % third]
    return origin, high.index_select(0, origin) - torch.stack(steps, 1)


def _sorted_by(
    keys: list[Tensor],  # the last one counts first
) -> Tensor:
    order = keys[0].argsort(stable=True)
    for key in keys[1:]:
        order = order[key[order].argsort(stable=True)]
    return order


class _Grid(NamedTuple):
    """Columns of two coordinates and levels of the third one."""

    limit: float
    low: list[float]
    width: list[float]
    counts: list[int]

    @classmethod
    def of(cls, space: _Space, systems: int) -> _Grid:
        most = 2 ** ((_KEY_BITS - systems.bit_length()) // 3) - 4
        low, top = ([*corner, 0.0, 0.0][:3] for corner in (space.low, space.top))
        finest = [space.limit, space.limit, space.limit / _LEVELS]
        extent = [b - a for a, b in zip(low, top, strict=True)]
        width = [max(w, size / most) for w, size in zip(finest, extent, strict=True)]
        counts = [int(size / w) + 3 for w, size in zip(width, extent, strict=True)]
        return cls(space.limit, low, width, counts)

    def axes(self, points: Tensor) -> list[Tensor]:
        """Return three coordinates in units of their widths, each (points,)."""
        found = points[:, :3].unbind(1)
        found += (torch.zeros_like(found[0]),) * (3 - len(found))
        return [(x - a) / w for x, a, w in zip(found, self.low, self.width, strict=True)]

    def level(self, u: Tensor, axis: int) -> Tensor:
        """Return columns or levels; points beyond the outermost ones count to these."""
        return u.floor().clamp(-1, self.counts[axis] - 2).long() + 1

    def keys(self, points: Tensor, number: Tensor) -> Tensor:
        """Return the order of points, (points,)."""
        x, y, z = (self.level(u, axis) for axis, u in enumerate(self.axes(points)))
        return ((number * self.counts[0] + x) * self.counts[1] + y) * self.counts[2] + z

    def intervals(self, points: Tensor, number: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return begin and end among sorted keys of each point and column, (points, 3, 3)."""
        x, y, z = self.axes(points)
        steps = torch.arange(-1, 2, device=points.device)
        first = (number * self.counts[0] + self.level(x, 0))[:, None] + steps
        column = first[:, :, None] * self.counts[1] + self.level(y, 1)[:, None, None] + steps
        # Squared distances to the three columns of a coordinate.
        gaps = [
            torch.stack([u - u.floor(), torch.zeros_like(u), 1 - (u - u.floor())], 1) * width
            for u, width in zip((x, y), self.width, strict=False)
        ]
        square = self.limit**2 - gaps[0].square()[:, :, None] - gaps[1].square()[:, None]
        half = square.clamp_min(0).sqrt() / self.width[2]
        lowest = column * self.counts[2] + self.level(z[:, None, None] - half, 2)
        highest = column * self.counts[2] + self.level(z[:, None, None] + half, 2)
        begin = torch.searchsorted(keys, lowest)
        end = torch.searchsorted(keys, highest, right=True)
        return begin, end.where(square >= 0, begin)


def _blocks(
    space: _Space, batch: Tensor | None, systems: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield targets, images and doubts of near pairs; raise if edges do not fit in memory."""
    grid, points = _Grid.of(space, systems), space.points
    of_points = points.new_zeros(1, dtype=torch.int64) if batch is None else batch
    of_images = of_points if batch is None else of_points.index_select(0, space.origin)
    keys, order = grid.keys(space.images, of_images).sort()
    begin, end = grid.intervals(points, of_points, keys)
    ends = (end - begin).flatten().cumsum(0)
    total = int(ends[-1])
    blocks = partial(_near, ends, ends - end.flatten(), total, _Distances.of(space, order))
    wanted, device = float(total) * BYTES_PER_EDGE, points.device
    available = memory_of(device) if wanted > ALWAYS_THERE else None
    if available is not None and wanted > available:
        count = sum(len(target) for target, _, _ in blocks()) - len(points)
        check_size(float(count), BYTES_PER_EDGE / 8, "edges", device=device)
    for target, place, is_doubtful in blocks():
        yield target, order.index_select(0, place), is_doubtful


class _Distances(NamedTuple):
    """Coordinates of points and of sorted images, and bounds of their squared distances."""

    here: list[Tensor]  # (points,) each
    there: list[Tensor]  # (images,) each
    certain: float  # shorter ones are edges, except for zero
    possible: float  # longer ones are not

    @classmethod
    def of(cls, space: _Space, order: Tensor) -> _Distances:
        # From a corner of all points, so that float32 rounds by little.
        corner, dim = space.points.amin(0), space.points.shape[1]
        extent = max(b - a for a, b in zip(space.low, space.top, strict=True)) + space.limit
        kind = torch.float32 if extent <= _SINGLE * space.limit else torch.float64
        here = (space.points - corner).to(kind).T.contiguous()
        there = (space.images - corner).to(kind).index_select(0, order).T.contiguous()
        # Two roundings of each coordinate, and less of differences and squares.
        longest = space.limit + 8 * dim * torch.finfo(kind).eps * extent
        shortest = max(2 * space.cutoff - longest, 0.0)
        return cls([*here], [*there], shortest**2, longest**2)


def _near(
    ends: Tensor,  # (intervals,) numbers of pairs up to the end of each interval, nine per point
    before: Tensor,  # (intervals,) differences of these numbers and places of images
    total: int,  # of pairs
    distances: _Distances,
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield targets, places of images and doubts of near pairs, block by block."""
    for start in range(0, total, _AT_ONCE):
        # int32 moves half as much memory.
        last = (ends - start).clamp(-1, _AT_ONCE).int()
        offset = (before - start).clamp(-(2**31), 2**31 - 1).int()
        each = torch.arange(min(_AT_ONCE, total - start), dtype=torch.int32, device=ends.device)
        row = torch.searchsorted(last, each, right=True, out_int32=True)
        place, target = each - offset.index_select(0, row), row // _COLUMNS
        first, *others = (
            images.index_select(0, place).sub_(points.index_select(0, target))
            for points, images in zip(distances.here, distances.there, strict=True)
        )
        square = first.square_()
        for gap in others:
            square.addcmul_(gap, gap)
        near = (square < distances.possible).nonzero().squeeze(1)
        square = square.index_select(0, near)
        is_doubtful = (square == 0) | (square >= distances.certain)
        yield target.index_select(0, near).long(), place.index_select(0, near), is_doubtful
