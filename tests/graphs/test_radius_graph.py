import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.graphs import knn_graph, neighbor_list, radius_graph
from tests.graphs.conformance import EVERY
from tests.wrong_inputs import refused

GRID = torch.cartesian_prod(*[torch.arange(4.0)] * 3)  # shells of ties


def compared(x, cutoff, loop=False):
    """All pairs, by target and source."""
    square = (x[:, None].double() - x.double()).square().sum(-1)
    near = square < cutoff * cutoff
    near.fill_diagonal_(loop)
    target, source = near.nonzero().T
    return torch.stack([source, target])


@pytest.mark.parametrize("backend", EVERY)
def test_edges_are_all_pairs_that_are_nearer(backend):
    for cutoff in (1.0, 1.5, 2.0, float(np.nextafter(2.0, 3)), 10.0):
        found = radius_graph(GRID, cutoff, backend=backend)
        assert torch.equal(found, compared(GRID, cutoff))
        assert torch.equal(found, neighbor_list(GRID, cutoff, backend=backend).edge_index)
        found = radius_graph(GRID, cutoff, loop=True, backend=backend)
        assert torch.equal(found, compared(GRID, cutoff, True))


@pytest.mark.parametrize("backend", EVERY)
@given(data=st.data())
def test_points_may_have_any_number_of_coordinates(backend, data):
    dim = data.draw(st.integers(1, 5))
    row = st.lists(st.integers(-8, 8).map(lambda n: n / 4), min_size=dim, max_size=dim)
    x = torch.tensor(data.draw(st.lists(row, max_size=12))).reshape(-1, dim)
    cutoff = data.draw(st.integers(1, 12)) / 4
    assert torch.equal(radius_graph(x, cutoff, backend=backend), compared(x, cutoff))


@pytest.mark.parametrize("backend", EVERY)
def test_no_edge_joins_two_clouds(backend):
    x = torch.zeros(6, 3)
    batch = torch.tensor([0, 0, 2, 2, 2, 3])
    edges = radius_graph(x, 1.0, batch, backend=backend)
    assert edges.tolist() == [[1, 0, 3, 4, 2, 4, 2, 3], [0, 1, 2, 2, 3, 3, 4, 4]]
    assert torch.equal(
        edges, radius_graph(x, 1.0, ptr=torch.tensor([0, 2, 2, 5, 6]), backend=backend)
    )


def sorted_all(x, k, loop=False):
    """All distances, sorted; the lower number first of equals."""
    square = (x[:, None].double() - x.double()).square().sum(-1)
    if not loop:
        square.fill_diagonal_(torch.inf)
    count = min(k, len(x) if loop else max(len(x) - 1, 0))
    nearest = square.argsort(dim=1, stable=True)[:, :count]
    return torch.stack([nearest.flatten(), torch.arange(len(x)).repeat_interleave(count)])


@pytest.mark.parametrize("backend", EVERY)
def test_ties_are_decided_by_numbers(backend):
    for k, loop in itertools.product([0, 1, 3, 7, 63, 100], [False, True]):
        found = knn_graph(GRID, k, loop=loop, backend=backend)
        assert torch.equal(found, sorted_all(GRID, k, loop)), (k, loop)


@pytest.mark.parametrize("backend", EVERY)
@given(data=st.data())
def test_neighbors_are_those_of_all_distances(backend, data):
    dim = data.draw(st.integers(1, 5))
    row = st.lists(st.integers(-4, 4).map(lambda n: n / 4), min_size=dim, max_size=dim)
    x = torch.tensor(data.draw(st.lists(row, max_size=12))).reshape(-1, dim)
    k, loop = data.draw(st.integers(0, 13)), data.draw(st.booleans())
    assert torch.equal(knn_graph(x, k, loop=loop, backend=backend), sorted_all(x, k, loop))


@pytest.mark.parametrize("backend", EVERY)
def test_clouds_are_searched_one_by_one(backend):
    x = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    sizes = [4, 0, 1, 25]
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    parts = [
        knn_graph(x[a:b], 5, backend=backend) + a
        for a, b in zip(ptr.tolist()[:-1], ptr.tolist()[1:], strict=True)
    ]
    assert torch.equal(knn_graph(x, 5, ptr=ptr, backend=backend), torch.cat(parts, dim=1))
    batch = torch.tensor([0] * 4 + [2] + [3] * 25)
    assert torch.equal(knn_graph(x, 5, batch, backend=backend), torch.cat(parts, dim=1))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"positions": torch.zeros(3)}, ValueError, r"positions must be \(points, dim\)"),
        ({"positions": torch.zeros(3, 0)}, ValueError, r"positions must be \(points, dim\)"),
        ({"positions": GRID.long()}, TypeError, "positions must be floating"),
        ({"positions": GRID * torch.nan}, ValueError, "positions must be finite"),
        ({"loop": None}, TypeError, "loop must be a bool, got None"),
        ({"batch": torch.zeros(3).long()}, ValueError, "batch must be"),
        ({"backend": "own"}, ValueError, "backend must be one of"),
        ({"cutoff": 0}, ValueError, "cutoff must be positive"),
        ({"k": -1}, ValueError, "k must not be negative, got -1"),
        ({"k": 2.0}, TypeError, "k must be an integer, got float"),
        ({"k": True}, TypeError, "k must be an integer, got bool"),
    ],
)
def test_wrong_arguments_are_named(wrong, error, message):
    for search, good in ((radius_graph, {"cutoff": 1.0}), (knn_graph, {"k": 3})):
        if good.keys() == wrong.keys() or wrong.keys().isdisjoint({"cutoff", "k"}):
            refused(message, search, error=error, **{"positions": GRID} | good | wrong)
        assert search(torch.zeros(0, 2), **good).shape == (2, 0)
        assert search(torch.zeros(0, 2), **good, loop=True).shape == (2, 0)
