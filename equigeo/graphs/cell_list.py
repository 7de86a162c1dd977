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
# coordinates (columns are at least a cutoff wide), and by the third coordinate. Each system has its
# own grid and rounding bound, so that none changes the cost of others. The neighbors of a
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
    number: Tensor | None  # (systems,) cell of each system; None for one cell
    is_changed: bool  # whether any basis differs from the given vectors

    def rows(self) -> Tensor:
        """Return the table of each system, (systems, 14, 3), or (1, 14, 3) for one cell."""
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
    number = number.reshape(-1)
    filled = np.diff(given.offsets) > 0
    used, number = np.unique(np.where(filled, number, number[filled][0]), return_inverse=True)
    table, device = table[used], given.positions.device
    of_systems = torch.from_numpy(number).to(device) if len(table) > 1 else None
    is_changed = bool((table[:, 6:9] != np.eye(3)).any())
    return Lattices(torch.from_numpy(table).to(device), of_systems, is_changed)


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


class _Systems(NamedTuple):
    """Which points belong to which system."""

    number: Tensor  # (points,) ascending, or (1,) for one system
    total: int

    def most(self, x: Tensor) -> Tensor:
        """Return maxima of columns, (systems, columns); minus infinity without points."""
        if self.total == 1:
            return x.amax(0, keepdim=True)
        each = torch.arange(self.total + 1, device=x.device)
        sizes = torch.searchsorted(self.number, each).diff().repeat(x.shape[1])
        found = torch.segment_reduce(
            x.T.flatten(), "max", lengths=sizes, unsafe=True, initial=-torch.inf
        )
        return found.view(-1, self.total).T

    def of_points(self, values: Tensor) -> Tensor:
        """Return the rows of systems, or of one for all, for each point or for all."""
        return values if len(values) == 1 else values.index_select(0, self.number)

    def of_images(self, origin: Tensor) -> Tensor:
        """Return the system of each image, (images,), or (1,) for one system."""
        return self.number if self.total == 1 else self.number.index_select(0, origin)


class _Space(NamedTuple):
    """Points inside of compact cells and all images near them, sorted by origin and shift."""

    points: Tensor  # (points, dim) in the terms of a grid
    wraps: Tensor | None  # (points, 3) given lattice vectors subtracted from each point
    images: Tensor  # (images, dim), points among them
    origin: Tensor  # (images,)
    shift: Tensor | None  # (images, 3) of an edge to a point that is not wrapped
    grid: _Grid


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

    each = x.new_zeros(1, dtype=torch.int64) if batch is None or systems == 1 else batch
    owners = _Systems(each, systems)
    if lattices is None:
        space = _open_space(x * unit, cutoff * unit, owners, refuse_beyond)
    else:
        space = _periodic_space(x * unit, cutoff * unit, owners, lattices, refuse_beyond)
    bits = (len(space.images) - 1).bit_length()
    parts = [
        (target << bits | image, is_doubtful)
        for target, image, is_doubtful in _blocks(space, owners, cutoff * unit)
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


def _open_space(
    x: Tensor, cutoff: float, systems: _Systems, refuse_beyond: Callable[[float], None]
) -> _Space:
    corners = systems.most(torch.cat([x, -x], 1))
    largest = corners.amax(1, keepdim=True).clamp_min(0)
    limit = cutoff * (1 + MARGIN) + ROUNDINGS * (largest + cutoff)
    (known,), grid = _Grid.of(corners, limit, systems.total, [x.abs().amax()])
    refuse_beyond(known)
    points = grid.scaled(x, systems.number)
    return _Space(points, None, points, torch.arange(len(x), device=x.device), None, grid)


def _periodic_space(
    x: Tensor,
    cutoff: float,
    systems: _Systems,
    lattices: Lattices,
    refuse_beyond: Callable[[float], None],
) -> _Space:
    """Wrap points into compact cells and list their images."""
    table = lattices.rows()
    rows = systems.of_points(table)
    periodic = rows[:, 13] > 0
    along = _times(x, rows[:, 3:6])
    wraps = along.floor().where(periodic, 0.0)
    points = x - _times(wraps, rows[:, :3])
    size = x.abs().amax(1, keepdim=True)
    along = along - wraps
    most = systems.most(torch.cat([size, wraps.abs(), points, -points, along, -along], 1))
    largest, farthest = most[:, :1].clamp_min(0), most[:, 1:4].clamp_min(0)
    reach = cutoff / table[:, 12] + farthest + 1
    vectors = (reach[:, :, None] * table[:, 9:12]).sum(1).amax(1, keepdim=True)
    limit = cutoff * (1 + MARGIN) + ROUNDINGS * (largest + cutoff + vectors)
    # Fractional coordinates of images lie around those of points, within heights of the limit.
    more = systems.of_points(limit) / rows[:, 12] * (1 + MARGIN) + MARGIN
    last, first = systems.of_points(most[:, 10:]).split(3, 1)
    low = (-first - more - along).ceil().where(periodic, 0.0)
    high = (last + more - along).floor().where(periodic, 0.0)
    copies = high - low + 1
    shifts = 2 * (systems.of_points(farthest.amax(1)) + copies.amax(1))
    if lattices.is_changed:
        shifts = shifts * (3 * rows[:, 6:9].abs().amax((1, 2)))
    known, grid = _Grid.of(
        most[:, 4:10],
        limit,
        systems.total,
        [size.amax(), wraps.abs().amax(), copies.prod(1).sum(), shifts.amax()],
    )
    refuse_beyond(known[0])
    check_shifts(known[1])
    check_size(known[2], _NUMBERS_PER_IMAGE, device=x.device)
    origin, numbers = _numbered(high.long(), copies.long(), int(known[2]))
    of_images = rows if len(rows) == 1 else rows.index_select(0, origin)
    images = points.index_select(0, origin) + _times(numbers.double(), of_images[:, :3])
    own, shift = wraps.long(), wraps.long().index_select(0, origin) - numbers
    largest_shift = known[3]
    if lattices.is_changed:
        if largest_shift > _LARGEST_PRODUCT:
            check_shifts(largest_shift)
        own, shift = _times(own, rows[:, 6:9].long()), _times(shift, of_images[:, 6:9].long())
        order = _sorted_by([shift[:, 2], shift[:, 1], shift[:, 0], origin])
        origin, shift, images = (v.index_select(0, order) for v in (origin, shift, images))
    if largest_shift <= LARGEST_SHIFT:
        own, shift = own.int(), shift.int()
    points = grid.scaled(points, systems.number)
    images = grid.scaled(images, systems.of_images(origin))
    return _Space(points, own, images, origin, shift, grid)


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
    """Columns of two coordinates and levels of the third one, of each system."""

    limit: Tensor  # (systems, 1) cutoffs, enlarged by rounding bounds: the unit of a system
    low: Tensor  # (systems, dim) corners of boxes around points
    extent: Tensor  # (systems, 1) longest sides of the boxes, enlarged by the limit
    width: Tensor  # (systems, 3)
    counts: list[int]  # of any system
    is_single: bool  # whether float32 suffices for distances

    @classmethod
    def of(
        cls,
        corners: Tensor,  # (systems, 2 dim) largest coordinates, and largest of their negatives
        limit: Tensor,
        systems: int,
        sizes: list[Tensor],  # numbers to read as well
    ) -> tuple[list[float], _Grid]:
        """Return sizes and grid, after one wait for the device."""
        top, low = corners.chunk(2, 1)
        box = ((top + low) / limit).clamp_min(0)
        extent = box.amax(1, keepdim=True) + 1
        box = torch.nn.functional.pad(box, (0, 3))[:, :3]
        most = 2 ** ((_KEY_BITS - systems.bit_length()) // 3) - 4
        width = box / most
        width[:, :2].clamp_min_(1)
        width[:, 2].clamp_min_(1 / _LEVELS)
        counts = (box / width).amax(0)
        *known, longest, x, y, z = torch.stack([*sizes, extent.amax(), *counts]).tolist()
        # The smaller number, also of NaN.
        found = [int(min(most, count)) + 3 for count in (x, y, z)]
        return known, cls(limit, -low, extent, width, found, longest <= _SINGLE)

    def scaled(self, points: Tensor, number: Tensor) -> Tensor:
        """Return points from the corners of their systems, in units of the limits."""
        points = points - self.low.index_select(0, number)
        return points.div_(self.limit.index_select(0, number))

    def axes(self, points: Tensor, number: Tensor) -> list[Tensor]:
        """Return three coordinates in units of their widths, each (points,)."""
        width = self.width.index_select(0, number)
        found = points[:, :3] / width[:, : points.shape[1]]
        return [*torch.nn.functional.pad(found, (0, 3 - found.shape[1])).unbind(1)]

    def level(self, u: Tensor, axis: int) -> Tensor:
        """Return columns or levels; points beyond the outermost ones count to these."""
        return u.floor().clamp(-1, self.counts[axis] - 2).long() + 1

    def keys(self, points: Tensor, number: Tensor) -> Tensor:
        """Return the order of points, (points,)."""
        x, y, z = (self.level(u, axis) for axis, u in enumerate(self.axes(points, number)))
        return ((number * self.counts[0] + x) * self.counts[1] + y) * self.counts[2] + z

    def intervals(self, points: Tensor, number: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return begin and end among sorted keys of each point and column, (points, 3, 3)."""
        x, y, z = self.axes(points, number)
        widths = self.width.index_select(0, number)[:, :, None].unbind(1)
        steps = torch.arange(-1, 2, device=points.device)
        first = (number * self.counts[0] + self.level(x, 0))[:, None] + steps
        column = first[:, :, None] * self.counts[1] + self.level(y, 1)[:, None, None] + steps
        # Squared distances to the three columns of a coordinate.
        gaps = [
            torch.stack([u - u.floor(), torch.zeros_like(u), 1 - (u - u.floor())], 1) * width
            for u, width in zip((x, y), widths, strict=False)
        ]
        square = 1 - gaps[0].square()[:, :, None] - gaps[1].square()[:, None]
        half = square.clamp_min(0).sqrt() / widths[2][:, :, None]
        lowest = column * self.counts[2] + self.level(z[:, None, None] - half, 2)
        highest = column * self.counts[2] + self.level(z[:, None, None] + half, 2)
        begin = torch.searchsorted(keys, lowest)
        end = torch.searchsorted(keys, highest, right=True)
        return begin, end.where(square >= 0, begin)


def _blocks(
    space: _Space, systems: _Systems, cutoff: float
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield targets, images and doubts of near pairs; raise if edges do not fit in memory."""
    grid, points = space.grid, space.points
    keys, order = grid.keys(space.images, systems.of_images(space.origin)).sort()
    begin, end = grid.intervals(points, systems.number, keys)
    ends = (end - begin).flatten().cumsum(0)
    total = int(ends[-1])
    distances = _Distances.of(space, order, systems, cutoff)
    blocks = partial(_near, ends, ends - end.flatten(), total, distances)
    wanted, device = float(total) * BYTES_PER_EDGE, points.device
    available = memory_of(device) if wanted > ALWAYS_THERE else None
    if available is not None and wanted > available:
        count = sum(len(target) for target, _, _ in blocks()) - len(points)
        check_size(float(count), BYTES_PER_EDGE / 8, "edges", device=device)
    for target, place, is_doubtful in blocks():
        yield target, order.index_select(0, place), is_doubtful


class _Distances(NamedTuple):
    """Coordinates of points and of sorted images, and a bound of their squared distances."""

    here: list[Tensor]  # (points,) each, in a unit such that longer distances than 1 are no edges
    there: list[Tensor]  # (images,) each
    certain: Tensor  # (points,) or (1,), shorter ones are edges, except for zero

    @classmethod
    def of(cls, space: _Space, order: Tensor, systems: _Systems, cutoff: float) -> _Distances:
        grid, dim = space.grid, space.points.shape[1]
        kind = torch.float32 if grid.is_single else torch.float64
        # Two roundings of each coordinate, and less of differences and squares.
        longest = 1 + 8 * dim * torch.finfo(kind).eps * grid.extent
        shortest = (2 * cutoff / (grid.limit * longest) - 1).clamp_min(0)
        here, there = (
            (x / longest.index_select(0, number)).to(kind)
            for x, number in (
                (space.points, systems.number),
                (space.images, systems.of_images(space.origin)),
            )
        )
        certain = systems.of_points(shortest.square().squeeze(1).to(kind))
        there = there.index_select(0, order)
        return cls([*here.T.contiguous()], [*there.T.contiguous()], certain)


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
        near = (square < 1).nonzero().squeeze(1)
        square, target = square.index_select(0, near), target.index_select(0, near)
        certain = distances.certain
        if len(certain) > 1:
            certain = certain.index_select(0, target)
        yield target.long(), place.index_select(0, near), (square == 0) | (square >= certain)
