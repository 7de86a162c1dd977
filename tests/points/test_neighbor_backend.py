"""One switch, read once, with errors that say what to do."""

import sys
from types import ModuleType

import pytest

from equigeo.points import neighbor_backend
from equigeo.points.neighbor_backend import torch_cluster
from tests.points.clusters import INSTALLED

# The package's attribute of this name is the function.
MODULE = sys.modules["equigeo.points.neighbor_backend"]


@pytest.fixture(autouse=True)
def fresh():
    torch_cluster.cache_clear()
    yield
    torch_cluster.cache_clear()


def test_own_searches_can_be_chosen(monkeypatch):
    monkeypatch.setenv("EQUIGEO_NEIGHBORS", "own")
    assert neighbor_backend() == "equigeo"


@pytest.mark.parametrize("choice", ["auto", "torch-cluster"])
def test_torch_cluster_is_named_where_it_is_installed(monkeypatch, choice):
    if not INSTALLED:
        monkeypatch.setitem(sys.modules, "torch_cluster", ModuleType("torch_cluster"))
        monkeypatch.setattr(MODULE, "version", lambda name: "1.6.3")
    monkeypatch.setenv("EQUIGEO_NEIGHBORS", choice)
    assert neighbor_backend().startswith("torch-cluster 1.")


def test_the_variable_is_read_once(monkeypatch):
    monkeypatch.setenv("EQUIGEO_NEIGHBORS", "own")
    assert neighbor_backend() == "equigeo"
    monkeypatch.setenv("EQUIGEO_NEIGHBORS", "nonsense")
    assert neighbor_backend() == "equigeo"


def test_other_values_are_refused(monkeypatch):
    monkeypatch.setenv("EQUIGEO_NEIGHBORS", "faiss")
    with pytest.raises(ValueError, match=r"must be one of auto, torch-cluster, own, got 'faiss'"):
        neighbor_backend()


def missing(name):
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_where_nothing_is_installed_own_searches_serve(monkeypatch):
    monkeypatch.setattr(MODULE, "import_module", missing)
    monkeypatch.delenv("EQUIGEO_NEIGHBORS", raising=False)
    assert neighbor_backend() == "equigeo"


def test_what_is_wanted_and_missing_is_an_error(monkeypatch):
    monkeypatch.setattr(MODULE, "import_module", missing)
    monkeypatch.setenv("EQUIGEO_NEIGHBORS", "torch-cluster")
    with pytest.raises(ImportError, match="pip install --no-build-isolation torch-cluster"):
        neighbor_backend()


@pytest.mark.parametrize("error", [OSError("undefined symbol"), ImportError("no _fps_cpu")])
def test_what_is_broken_is_an_error_even_if_it_is_not_asked_for(monkeypatch, error):
    def broken(name):
        raise error

    monkeypatch.setattr(MODULE, "import_module", broken)
    monkeypatch.delenv("EQUIGEO_NEIGHBORS", raising=False)
    with pytest.raises(ImportError, match=r"cannot be loaded .* EQUIGEO_NEIGHBORS=own"):
        neighbor_backend()
