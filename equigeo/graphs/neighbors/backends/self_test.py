"""Self-test of a backend on small systems before its first use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from equigeo.graphs.neighbors.backends.backend import Backend
from equigeo.graphs.neighbors.backends.brute_force import brute_force
from equigeo.graphs.neighbors.edge_search import find_edges
from equigeo.graphs.neighbors.point_system import Doubles, PointSystem


def failed_case(backend: Backend) -> str | None:
    """Return the name of the first case with another result than brute force, or None."""
    reference = Backend("brute", brute_force)
    for name, system in _cases():
        if system.pbc.any() and not backend.periodic:
            continue
        try:
            found = find_edges(system, backend)
        except (RuntimeError, TypeError, ValueError, IndexError):
            return name
        wanted = find_edges(system, reference)
        if not (
            np.array_equal(found.pairs, wanted.pairs)
            and np.array_equal(found.shifts, wanted.shifts)
        ):
            return name
    return None


def _cases() -> Iterator[tuple[str, PointSystem]]:
    few, many = _scattered(12), _scattered(90)
    skewed = np.array([[4.0, 0.0, 0.0], [3.6, 3.2, 0.0], [-2.5, 1.0, 4.4]])
    all_axes, no_axis = np.ones(3, np.bool_), np.zeros(3, np.bool_)
    slab, wire = np.array([True, True, False]), np.array([False, True, False])
    yield "one point with its own images", PointSystem(few[:1], np.eye(3), all_axes, 2.2)
    yield "a skewed cell", PointSystem(few @ skewed, skewed, all_axes, 2.5)
    yield "a left-handed cell", PointSystem(few @ skewed, skewed[::-1].copy(), all_axes, 2.5)
    yield "points outside of the cell", PointSystem(40 * few - 30, 4 * np.eye(3), all_axes, 2.5)
    yield "a slab", PointSystem(9 * few - 20, skewed, slab, 3.0)
    yield "a wire", PointSystem(9 * few - 20, skewed, wire, 3.0)
    yield "coincident points", PointSystem(np.ones((3, 3)), 9 * np.eye(3), all_axes, 3.0)
    yield "no cell", PointSystem(9 * few - 20, np.zeros((3, 3)), no_axis, 4.0)
    # So many that libraries sort them into cells, and more neighbours than a default holds.
    yield "many points in a cell", PointSystem(10 * many, 10 * np.eye(3), all_axes, 2.4)
    yield "many points", PointSystem(2 * many, np.zeros((3, 3)), no_axis, 1.5)


def _scattered(count: int) -> Doubles:
    """Return a Weyl sequence of points in the unit cube."""
    return np.asarray(np.arange(1, count + 1)[:, None] * np.sqrt([2.0, 3.0, 5.0]) % 1.0, np.float64)
