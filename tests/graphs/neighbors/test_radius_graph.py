from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.graphs import neighbor_list, radius_graph
from equigeo.graphs.neighbors.backends.switch import BACKENDS
from tests.graphs.neighbors.available import ALL, available

ANY_SPACE = available([name for name, backend in BACKENDS.items() if not backend.only_space])
GRID = torch.cartesian_prod(*[torch.arange(4.0)] * 3)  # shells of ties


def compared(x, cutoff, loop=False):
    """All pairs, by target and source."""
    square = (x[:, None].double() - x.double()).square().sum(-1)
    near = square < cutoff * cutoff
    near.fill_diagonal_(loop)
    target, source = near.nonzero().T
    return torch.stack([source, target])


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("cutoff", [1.0, 1.5, 2.0, float(np.nextafter(2.0, 3)), 10.0])
def test_edges_are_all_pairs_that_are_nearer(backend, cutoff):
    found = radius_graph(GRID, cutoff, backend=backend)
    assert torch.equal(found, compared(GRID, cutoff))
    assert torch.equal(found, neighbor_list(GRID, cutoff, backend=backend).edge_index)
    assert torch.equal(
        radius_graph(GRID, cutoff, loop=True, backend=backend), compared(GRID, cutoff, True)
    )


@pytest.mark.parametrize("backend", ANY_SPACE)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_points_may_have_any_number_of_coordinates(backend, data):
    dim = data.draw(st.integers(1, 5))
    row = st.lists(st.integers(-8, 8).map(lambda n: n / 4), min_size=dim, max_size=dim)
    x = torch.tensor(data.draw(st.lists(row, max_size=12))).reshape(-1, dim)
    cutoff = data.draw(st.integers(1, 12)) / 4
    assert torch.equal(radius_graph(x, cutoff, backend=backend), compared(x, cutoff))


@pytest.mark.parametrize("backend", ALL)
def test_no_edge_joins_two_clouds(backend):
    x = torch.zeros(6, 3)
    batch = torch.tensor([0, 0, 2, 2, 2, 3])
    edges = radius_graph(x, 1.0, batch, backend=backend)
    assert edges.tolist() == [[1, 0, 3, 4, 2, 4, 2, 3], [0, 1, 2, 2, 3, 3, 4, 4]]
    assert torch.equal(
        edges, radius_graph(x, 1.0, ptr=torch.tensor([0, 2, 2, 5, 6]), backend=backend)
    )


@pytest.mark.parametrize("backend", ALL)
def test_nothing_is_left_out_where_there_are_many(backend):
    x = torch.rand(100, 3, generator=torch.Generator().manual_seed(0))
    assert radius_graph(x, 2.0, backend=backend).shape == (2, 9900)


def test_no_points_have_no_edges():
    assert radius_graph(torch.zeros(0, 2), 1.0).shape == (2, 0)
    assert radius_graph(torch.zeros(0, 2), 1.0, loop=True).shape == (2, 0)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"positions": torch.zeros(3)}, ValueError, r"positions must be \(points, dim\)"),
        ({"positions": torch.zeros(3, 0)}, ValueError, r"positions must be \(points, dim\)"),
        ({"positions": GRID.long()}, TypeError, "positions must be floating"),
        ({"positions": GRID * torch.nan}, ValueError, "positions must be finite"),
        ({"cutoff": 0}, ValueError, "cutoff must be positive"),
        ({"loop": None}, TypeError, "loop must be a bool, got None"),
        ({"positions": torch.zeros(5, 2), "backend": "vesin"}, ValueError, "three coordinates"),
        ({"batch": torch.zeros(3).long()}, ValueError, "batch must be"),
    ],
)
def test_what_is_wrong_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        radius_graph(**({"positions": GRID, "cutoff": 1.0} | wrong))
