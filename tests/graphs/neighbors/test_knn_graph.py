from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.graphs import knn_graph
from tests.graphs.neighbors.available import available

BACKENDS = available(["scipy", "torch-cluster", "brute"])
GRID = torch.cartesian_prod(*[torch.arange(4.0)] * 3)


def sorted_all(x, k, loop=False):
    """All distances, sorted; the lower number first of equals."""
    square = (x[:, None].double() - x.double()).square().sum(-1)
    if not loop:
        square.fill_diagonal_(torch.inf)
    count = min(k, len(x) if loop else max(len(x) - 1, 0))
    nearest = square.argsort(dim=1, stable=True)[:, :count]
    return torch.stack([nearest.flatten(), torch.arange(len(x)).repeat_interleave(count)])


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3, 7, 63, 100])
@pytest.mark.parametrize("backend", BACKENDS)
def test_ties_are_decided_by_numbers(backend, k, loop):
    assert torch.equal(knn_graph(GRID, k, loop=loop, backend=backend), sorted_all(GRID, k, loop))


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_neighbors_are_those_of_all_distances(backend, data):
    dim = data.draw(st.integers(1, 5))
    row = st.lists(st.integers(-4, 4).map(lambda n: n / 4), min_size=dim, max_size=dim)
    x = torch.tensor(data.draw(st.lists(row, max_size=12))).reshape(-1, dim)
    k, loop = data.draw(st.integers(0, 13)), data.draw(st.booleans())
    assert torch.equal(knn_graph(x, k, loop=loop, backend=backend), sorted_all(x, k, loop))


@pytest.mark.parametrize("backend", BACKENDS)
def test_points_at_one_place_have_the_first_for_neighbors(backend):
    x = torch.zeros(20, 3)
    edges = knn_graph(x, 2, backend=backend)
    assert edges[0].view(20, 2)[[0, 1, 2, 19]].tolist() == [[1, 2], [0, 2], [0, 1], [0, 1]]


@pytest.mark.parametrize("backend", BACKENDS)
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
        ({"k": -1}, ValueError, "k must not be negative, got -1"),
        ({"k": 2.0}, TypeError, "k must be an integer, got float"),
        ({"k": True}, TypeError, "k must be an integer, got bool"),
        ({"loop": 1}, TypeError, "loop must be a bool"),
        ({"positions": GRID[0]}, ValueError, r"positions must be \(points, dim\)"),
        ({"positions": GRID / 0}, ValueError, "positions must be finite"),
        ({"backend": "own"}, ValueError, "backend must be one of"),
    ],
)
def test_what_is_wrong_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        knn_graph(**({"positions": GRID, "k": 3} | wrong))


@pytest.mark.parametrize("backend", available(["vesin", "matscipy"]))
def test_who_has_no_such_search_is_refused_by_name(backend):
    with pytest.raises(ValueError, match=f"'{backend}' finds no nearest points: take one of scipy"):
        knn_graph(GRID, 3, backend=backend)
