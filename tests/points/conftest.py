"""Searches of both kinds: of all pairs, and by trees of SciPy, torch-cluster or a stand-in."""

import importlib.util
from types import ModuleType

import pytest
import scipy
import torch

from equigeo.points import search as cluster_search
from equigeo.points.search import torch_cluster

INSTALLED = importlib.util.find_spec("torch_cluster") is not None


class StandIn(ModuleType):
    """The two functions as torch-cluster documents them, with ties the other way around."""

    def __init__(self):
        super().__init__("torch_cluster")

    @staticmethod
    def knn(x, y, k, batch_x, batch_y):
        square = _squares(x, y, batch_x, batch_y).flip(1)
        nearest = len(x) - 1 - square.argsort(dim=1, stable=True)[:, :k]
        there = (batch_x[nearest] == batch_y[:, None]) & ~y.isnan().any(1, keepdim=True)
        return torch.stack([there.nonzero()[:, 0], nearest[there]])

    @staticmethod
    def radius(x, y, r, batch_x, batch_y, max_num_neighbors):
        inside = _squares(x, y, batch_x, batch_y) < r * r  # what lies on the sphere is outside
        assert int(inside.sum(1).max()) <= max_num_neighbors
        return inside.nonzero().mT


def _squares(x, y, batch_x, batch_y):
    square = (y[:, None] - x).square().sum(-1)
    return square.masked_fill(batch_x != batch_y[:, None], torch.inf)


@pytest.fixture
def own_searches(monkeypatch):
    """No torch-cluster, installed or not."""
    monkeypatch.setattr(cluster_search, "torch_cluster", lambda: None)


@pytest.fixture(params=["stand-in", "scipy", *["torch-cluster"] * INSTALLED])
def both(request, monkeypatch):
    """Call a function with a search of all pairs, and by trees or what stands in for them."""
    kinds = {"stand-in": StandIn, "scipy": lambda: scipy, "torch-cluster": torch_cluster}
    cluster = kinds[request.param]()
    assert cluster is not None
    monkeypatch.setenv("EQUIGEO_NEIGHBORS", "torch-cluster")

    def call(function, *args, **keywords):
        monkeypatch.setattr(cluster_search, "torch_cluster", lambda: None)
        own = function(*args, **keywords)
        monkeypatch.setattr(cluster_search, "torch_cluster", lambda: cluster)
        return own, function(*args, **keywords)

    return call
