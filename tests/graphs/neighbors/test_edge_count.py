from __future__ import annotations

import sys

import numpy as np
import pytest

from equigeo.graphs.neighbors.backends.brute_force import brute_force
from equigeo.graphs.neighbors.edge_count import check_edge_count, count_pairs, most_edges
from equigeo.graphs.neighbors.point_system import PointSystem
from equigeo.graphs.neighbors.search_box import search_box
from tests.graphs.neighbors.conformance import LARGE, NO_CELL, cases, weyl


@pytest.mark.parametrize(
    "case", [case for case in cases() if len(case.positions)], ids=lambda case: case.name
)
def test_the_bound_is_one_and_the_count_is_exact(case):
    cell = NO_CELL if case.cell is None else case.cell
    system = PointSystem(case.positions, cell, np.array(case.pbc), case.cutoff * (1 - 1e-7))
    box = search_box(system)
    assert most_edges(box) >= count_pairs(box)
    if len(case.positions) < 50:
        found = brute_force(system)
        own = found.pairs[0] == found.pairs[1]
        if found.shift is not None:
            own &= ~found.shift.any(axis=0)
        assert count_pairs(box) == found.pairs.shape[1] - own.sum()


@pytest.mark.parametrize("axes", [0, 1, 2, 3])
def test_the_bound_is_not_far_off(axes):
    pbc = np.arange(3) < axes
    box = search_box(PointSystem(weyl(3000, 3 * LARGE), 3 * LARGE, pbc, 4.0))
    assert count_pairs(box) <= most_edges(box) <= 20 * count_pairs(box)


def test_nothing_is_refused_that_fits(monkeypatch):
    """The bound does not fit, the edges do."""
    box = search_box(PointSystem(weyl(3000, 3 * LARGE), 3 * LARGE, np.ones(3, bool), 12.0))
    edges = count_pairs(box)
    for there, fits in ((128 * edges + 1, True), (128 * edges - 129, False)):
        for name in ("memory", "edge_count"):
            module = sys.modules[f"equigeo.graphs.neighbors.{name}"]
            monkeypatch.setattr(module, "available_bytes", lambda there=there: there)
        if fits:
            check_edge_count(box)
        else:
            with pytest.raises(ValueError, match=r"it reaches .* edges, which take"):
                check_edge_count(box)
