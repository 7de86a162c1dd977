"""What a backend must not give, whatever else: such lists are refused when they come."""

from __future__ import annotations

import numpy as np
import pytest

from equigeo.graphs.neighbors.backends.backend import Backend
from equigeo.graphs.neighbors.backends.brute_force import brute_force
from equigeo.graphs.neighbors.edge_search import find_edges
from equigeo.graphs.neighbors.point_system import Candidates, PointSystem

SYSTEM = PointSystem(
    np.array([[0.0, 0, 0], [0.4, 0, 0], [0, 0.3, 5]]), np.eye(3), np.array([True, True, False]), 1.2
)


def search(change):
    return find_edges(SYSTEM, Backend("changed", lambda system: change(*brute_force(system))))


def test_candidates_that_are_no_edges_are_dropped():
    right = search(Candidates)

    def more(pairs, shift):
        far = np.array([[9], [0], [0]], np.int32)
        extra = np.concatenate([shift, far, 0 * far], axis=1)
        return Candidates(np.concatenate([pairs, [[0, 1], [1, 1]]], axis=1), extra)

    for a, b in zip(search(more), right, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda pairs, shift: Candidates(np.tile(pairs, 2), np.tile(shift, 2)), "an edge twice"),
        (lambda pairs, shift: Candidates(pairs[:, :-1], shift[:, :-1]), "without their reverse"),
        (
            lambda pairs, shift: Candidates(
                pairs,
                np.concatenate([shift[:2], np.array([[1], [-1]])[shift[2:] * 0].reshape(1, -1)]),
            ),
            "images along an axis",
        ),
    ],
)
def test_what_cannot_be_a_list_is_refused(change, what):
    flat = PointSystem(SYSTEM.positions, np.diag([1, 1, 1e-3]), SYSTEM.pbc, 1.2)
    with pytest.raises(RuntimeError, match=f"'changed' listed .*{what}"):
        find_edges(flat, Backend("changed", lambda system: change(*brute_force(system))))
