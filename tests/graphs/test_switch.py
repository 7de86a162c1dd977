"""The conformance suite: every backend gives the right list for every system, or is refused."""

import sys
from types import ModuleType

import numpy as np
import pytest
import torch

from equigeo.graphs import NeighborList, neighbor_list
from equigeo.graphs.backend_choice import BACKENDS, choose_backend, require_package
from equigeo.graphs.backends import Backend
from equigeo.testing import tolerance
from tests.graphs.available import ALL
from tests.graphs.conformance import Case, cases, scalar_edges
from tests.tier import tier

MODULE = sys.modules["equigeo.graphs.backend_choice"]
# Loops would go through all the cells between the points of the others.
FEW = [case for case in cases() if len(case.positions) < 20 and case.name[:2] not in ("18", "19")]


def search(case: Case, backend: str) -> NeighborList:
    cell = None if case.cell is None else torch.from_numpy(case.cell.copy())
    positions = torch.from_numpy(case.positions.copy())
    return neighbor_list(positions, case.cutoff, cell, case.pbc, backend=backend)


def as_rows(edges: NeighborList) -> list[tuple[int, ...]]:
    """Target, source and shift of each edge."""
    return [*map(tuple, torch.cat([edges.edge_index.flip(0).T, edges.shifts], dim=1).tolist())]


@pytest.mark.parametrize("backend", ALL)
def test_every_backend_passes_the_conformance_suite(backend):
    for case in cases():
        if any(case.pbc) and not BACKENDS[backend].periodic:
            with pytest.raises(ValueError, match=f"{backend}' lists no periodic images"):
                search(case, backend)
            continue
        edges = search(case, backend)
        source, target = edges.edge_index
        assert edges.num_edges == case.edges, case.name
        assert int((source == target).sum()) == case.own, case.name
        # Eight decimals.
        assert float(edges.distances.sum()) == pytest.approx(case.length, abs=1e-8), case.name
        rows = as_rows(edges)
        assert rows == sorted(set(rows)), case.name
        assert {(s, t, *(-k for k in n)) for t, s, *n in rows} == set(rows), case.name
        assert edges.backend == backend
        same = search(case, "scipy")
        for values in ("edge_index", "shifts", "vectors"):
            assert torch.equal(getattr(edges, values), getattr(same, values)), case.name


def test_lists_are_those_of_plain_loops():
    for case in tier(FEW[::2], FEW):
        assert set(as_rows(search(case, "scipy"))) == scalar_edges(case), case.name


def test_vectors_are_those_of_the_definition():
    for case in cases():
        edges = search(case, "scipy")
        source, target = edges.edge_index.numpy()
        cell = np.zeros((3, 3)) if case.cell is None else case.cell
        want = case.positions[target] - case.positions[source] + edges.shifts.numpy() @ cell
        size = np.abs(case.positions).max(initial=1.0)
        near = size * tolerance(torch.float64, terms=3)["atol"]
        np.testing.assert_allclose(
            edges.vectors.numpy(), want, rtol=0, atol=near, err_msg=case.name
        )
        assert bool((edges.distances < case.cutoff).all()), case.name


@pytest.fixture
def fresh(monkeypatch):
    """A backend that is tried for the first time, from a module of the test."""

    def register(candidates, version="2.5.1", periodic=True):
        monkeypatch.setitem(sys.modules, "fake_list", ModuleType("fake_list"))
        monkeypatch.setattr(MODULE, "version", lambda package: version)
        fake = Backend("fake", candidates, "fake_list", "fake-list", (2, 4), periodic)
        monkeypatch.setitem(BACKENDS, "fake", fake)
        MODULE._admit.cache_clear()
        return fake

    yield register
    MODULE._admit.cache_clear()


def test_a_backend_that_is_right_is_admitted_and_tried_once(fresh):
    calls = []
    right = BACKENDS["scipy"].candidates
    fresh(lambda system: calls.append(1) or right(system))
    assert choose_backend("fake", True).name == "fake"
    tried = len(calls)
    assert tried == 10
    choose_backend("fake", True)
    assert len(calls) == tried


def drop_far_images(system):
    found = BACKENDS["scipy"].candidates(system)
    if found.shift is None:
        return found
    kept = (np.abs(found.shift) <= 1).all(axis=0)
    return found._replace(pairs=found.pairs[:, kept], shift=found.shift[:, kept])


def list_at_most_32(system):
    found = BACKENDS["scipy"].candidates(system)
    rank = np.array([int((found.pairs[0, :k] == s).sum()) for k, s in enumerate(found.pairs[0])])
    kept = rank < 32
    shift = None if found.shift is None else found.shift[:, kept]
    return found._replace(pairs=found.pairs[:, kept], shift=shift)


def twice(system):
    found = BACKENDS["scipy"].candidates(system)
    shift = None if found.shift is None else np.tile(found.shift, 2)
    return found._replace(pairs=np.tile(found.pairs, 2), shift=shift)


def breaks(system):
    raise RuntimeError("overflow of a buffer")


@pytest.mark.parametrize("wrong", [drop_far_images, list_at_most_32, twice, breaks])
def test_a_backend_that_is_wrong_is_refused_by_name(fresh, wrong):
    fresh(wrong)
    with pytest.raises(RuntimeError, match=r"'fake' is refused: fake-list 2.5.1 gives a wrong"):
        choose_backend("fake", True)


def test_old_versions_unknown_names_and_what_a_backend_cannot_do_are_refused(fresh):
    fake = fresh(BACKENDS["scipy"].candidates, version="2.3.9")
    with pytest.raises(ImportError, match=r"'fake' is refused: fake-list 2.3.9 is older than 2.4"):
        require_package(fake)
    for name in ("vesin", "own", None):
        with pytest.raises(ValueError, match=r"one of auto, scipy, torch-cluster, brute, .*got"):
            choose_backend(name, True)
    with pytest.raises(ValueError, match=r"'torch-cluster' lists no periodic images: take one of"):
        choose_backend("torch-cluster", True)
    assert choose_backend("auto", True).module is None


def test_a_missing_package_raises_with_its_name(monkeypatch):
    def missing(module):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(MODULE, "import_module", missing)
    message = r"torch-cluster.* cannot be imported .*pip install torch-cluster"
    with pytest.raises(ImportError, match=message):
        require_package(BACKENDS["torch-cluster"])
