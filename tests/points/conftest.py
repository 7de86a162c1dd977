"""Searches of both kinds."""

import pytest

from equigeo.points import search as cluster_search
from equigeo.points.search import torch_cluster
from tests.points.clusters import INSTALLED, StandIn


@pytest.fixture
def own_searches(monkeypatch):
    """No torch-cluster, installed or not."""
    monkeypatch.setattr(cluster_search, "torch_cluster", lambda: None)


@pytest.fixture(params=["stand-in", "torch-cluster"] if INSTALLED else ["stand-in"])
def both(request, monkeypatch):
    """Call a function with own searches and through torch-cluster, or what stands in for it."""
    cluster = StandIn() if request.param == "stand-in" else torch_cluster()
    assert cluster is not None
    monkeypatch.setenv("EQUIGEO_NEIGHBORS", "torch-cluster")

    def call(function, *args, **keywords):
        monkeypatch.setattr(cluster_search, "torch_cluster", lambda: None)
        own = function(*args, **keywords)
        monkeypatch.setattr(cluster_search, "torch_cluster", lambda: cluster)
        return own, function(*args, **keywords)

    return call
