"""Edges from the candidates of any backend: predicate, order and validation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equigeo.graphs.backends import Backend
from equigeo.graphs.systems import Candidates, Doubles, Integers, PointSystem, Shifts, chunks

_BITS = 63


class Edges(NamedTuple):
    """Edges of one system, sorted by target, source and shift."""

    pairs: Integers  # (2, edges): sources, targets
    shifts: Shifts  # (edges, dim) lattice vectors added to the target
    vectors: Doubles  # (edges, dim) from source to target


def find_edges(system: PointSystem, backend: Backend) -> Edges:
    """Return the edges of one system, bitwise equal for all backends."""
    count, dim = system.positions.shape
    if count == 0:
        return no_edges(dim)
    found = sort_edges(_without_points_themselves(backend.candidates(system)), count)
    kept, vectors = _near(system, found)
    if not kept.all():
        vectors = vectors[kept]
        shift = None if found.shift is None else found.shift[:, kept]
        found = Candidates(found.pairs[:, kept], shift)
    _check(system, found, backend.name)
    if found.shift is None:
        return Edges(found.pairs, np.zeros(vectors.shape, np.int32), vectors)
    return Edges(found.pairs, np.ascontiguousarray(found.shift.T, np.int32), vectors)


def no_edges(dim: int) -> Edges:
    """Return empty edges in ``dim`` dimensions."""
    return Edges(np.zeros((2, 0), np.int64), np.zeros((0, dim), np.int32), np.zeros((0, dim)))


def join_edges(
    parts: list[Edges],  # of systems
    offsets: list[int],  # of systems
) -> Edges:
    """Return the edges of all systems, in three dimensions if there is none."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return no_edges(3)
    return Edges(
        np.concatenate(
            [part.pairs + start for part, start in zip(parts, offsets[:-1], strict=True)], axis=1
        ),
        np.concatenate([part.shifts for part in parts]),
        np.concatenate([part.vectors for part in parts]),
    )


def _without_points_themselves(found: Candidates) -> Candidates:
    pairs, shift = found
    same = pairs[0] == pairs[1]
    if shift is not None:
        rows = np.flatnonzero(same)
        same[rows] = ~shift[:, rows].any(axis=0)
    if not same.any():
        return found
    return Candidates(pairs[:, ~same], None if shift is None else shift[:, ~same])


def _near(system: PointSystem, found: Candidates) -> tuple[NDArray[np.bool_], Doubles]:
    """Return which candidates are edges by the given positions, and their vectors."""
    (source, target), shift = found
    columns = np.ascontiguousarray(system.positions.T)
    bound = system.cutoff * system.cutoff
    vectors = np.empty((len(source), len(columns)))
    near = np.empty(len(source), np.bool_)
    for part in chunks(len(source)):
        ends, starts = target[part], source[part]
        v = np.empty((len(columns), len(ends)))
        for x, out in zip(columns, v, strict=True):
            np.subtract(x.take(ends), x.take(starts), out=out)
        if shift is not None:
            _add_shifts(v, shift[:, part], system.cell)
        vectors[part] = v.T
        v *= v
        # One sum after another: no order that a library may choose.
        square = v[0]
        for other in v[1:]:
            square += other
        np.less(square, bound, out=near[part])
    return near, vectors


def _add_shifts(vectors: Doubles, shift: NDArray[np.signedinteger], cell: Doubles) -> None:
    """Add ``shift @ cell`` with equal rounding for ``shift`` and ``-shift``."""
    rows = np.flatnonzero(np.bitwise_or.reduce(shift, axis=0))
    if not len(rows):
        return
    numbers = shift[:, rows].astype(np.float64)
    for axis, out in enumerate(vectors):
        total = numbers[0] * cell[0, axis]
        for number, row in zip(numbers[1:], cell[1:], strict=True):
            total += number * row[axis]
        out[rows] += total


def _check(system: PointSystem, found: Candidates, name: str) -> None:
    """Raise if the result violates a property of every neighbor list."""
    count = len(system.positions)
    outgoing, incoming = (np.bincount(row, minlength=count) for row in found.pairs)
    wrong = None
    if has_duplicates(found):
        wrong = "an edge twice"
    elif found.shift is not None and found.shift[~system.pbc].any():
        wrong = "images along an axis that is not periodic"
    elif not np.array_equal(outgoing, incoming):
        wrong = "edges without their reverse"
    if wrong is not None:
        raise RuntimeError(
            f"backend {name!r} listed {wrong}, which is a defect there: take another, "
            "such as backend='scipy'"
        )


def sort_edges(
    found: Candidates,
    points: int,  # number of points
) -> Candidates:
    """Sort edges by target, source and shift components; shifts become int32."""
    pairs, shift = found
    if pairs.shape[1] == 0:
        return Candidates(pairs, None if shift is None else shift.astype(np.int32))
    # One packed integer per edge: two million edges with shifts take 0.1 s, by lexsort 1.7 s.
    layout = _Layout.of(shift, points)
    if layout.bits > _BITS:
        order = np.lexsort((*([] if shift is None else shift[::-1]), pairs[0], pairs[1]))
        shift = None if shift is None else shift[:, order].astype(np.int32)
        return Candidates(pairs[:, order], shift)
    key = _pack(found, layout)
    key.sort()
    return _unpack(key, layout)


def has_duplicates(found: Candidates) -> bool:
    """Return whether sorted edges contain an edge twice."""
    (source, target), shift = found
    same = source[1:] == source[:-1]
    same &= target[1:] == target[:-1]
    if shift is None:
        return bool(same.any())
    (rows,) = np.nonzero(same)
    return bool((shift[:, rows] == shift[:, rows + 1]).all(axis=0).any())


class _Layout(NamedTuple):
    """Bit widths of a point and of each shift component, offset by its minimum."""

    node: int
    low: list[int]
    widths: list[int]

    @classmethod
    def of(cls, shift: NDArray[np.signedinteger] | None, points: int) -> _Layout:
        rows = [] if shift is None else [*shift]
        low = [int(row.min()) for row in rows]
        widths = [
            (int(row.max()) - start).bit_length() for row, start in zip(rows, low, strict=True)
        ]
        return cls((points - 1).bit_length(), low, widths)

    @property
    def bits(self) -> int:
        return 2 * self.node + sum(self.widths)


def _pack(found: Candidates, layout: _Layout) -> Integers:
    (source, target), shift = found
    keys = np.empty(len(source), np.int64)
    for part in chunks(len(keys)):
        key = keys[part]
        np.left_shift(target[part], layout.node, out=key)
        key |= source[part]
        for axis, width in enumerate(layout.widths):
            if width and shift is not None:
                key <<= width
                key |= shift[axis, part].astype(np.int64) - layout.low[axis]
    return keys


def _unpack(keys: Integers, layout: _Layout) -> Candidates:
    pairs = np.empty((2, len(keys)), np.int64)
    dim = len(layout.widths)
    shift = np.empty((dim, len(keys)), np.int32) if dim else None
    for part in chunks(len(keys)):
        key = keys[part]
        for axis in reversed(range(dim)):
            if shift is not None:
                width = layout.widths[axis]
                shift[axis, part] = (key & ((1 << width) - 1)) + layout.low[axis]
                key >>= width
        np.bitwise_and(key, (1 << layout.node) - 1, out=pairs[0, part])
        np.right_shift(key, layout.node, out=pairs[1, part])
    return Candidates(pairs, shift)
