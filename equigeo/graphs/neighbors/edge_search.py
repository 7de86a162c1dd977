"""Edges from the candidates of any backend: predicate, order and validation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equigeo.graphs.neighbors.backends.backend import Backend
from equigeo.graphs.neighbors.edge_order import has_duplicates, sort_edges
from equigeo.graphs.neighbors.point_system import (
    Candidates,
    Doubles,
    Integers,
    PointSystem,
    Shifts,
    chunks,
)


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
    """Raise if the result violates a property of every neighbour list."""
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
