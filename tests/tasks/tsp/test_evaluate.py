from __future__ import annotations

import json

import pytest
import torch

from equigeo.datasets import optimal_lengths, uniform_cities
from equigeo.tasks.tsp import (
    DECODINGS,
    TOUR_COPIES,
    evaluate_tour_model,
)
from equigeo.tasks.tsp import validation_instances as function
from equigeo.tasks.tsp.evaluate import tour_copies
from equigeo.testing import tolerance
from tests.datasets.tsplib_files import write_library


@pytest.fixture(autouse=True)
def _few(monkeypatch, tmp_path):
    monkeypatch.setitem(function.__globals__, "_NUMBER", 50)
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))


def test_rigid_copies_have_the_same_tours_behind_the_embedding_only(trained, tmp_path):
    library = write_library(tmp_path / "library")
    results = {
        inputs: evaluate_tour_model(model, instances=60, data=str(library), seed=3)
        for inputs, model in trained.items()
    }
    for result in results.values():
        assert result.optimal_length == optimal_lengths(uniform_cities(60, 8)).mean().item()
        gaps = [result.gap(name) for name in DECODINGS]
        assert gaps[0] >= gaps[1] >= gaps[3] >= 0
        assert gaps[0] >= gaps[2] >= gaps[3]
        assert [copy.kind for copy in result.copies] == list(TOUR_COPIES)
        assert [(e.name, e.cities, e.best) for e in result.transfer] == [
            ("box", 4, 14), ("ring", 7, 52),
        ]  # fmt: skip
        assert all(length >= e.best for e in result.transfer for length in e.lengths.values())
        assert [entry.flagged for entry in result.transfer][1] is False
        saved = json.loads(json.dumps(result.to_dict()))
        assert saved["gaps"]["greedy"] == result.gap("greedy")
        assert saved["transfer_gaps"]["greedy"] == result.transfer_gap("greedy")
    for copy in results["mds"].copies:
        assert (copy.identical, copy.flagged) == (1.0, 0)
        same = tolerance(torch.float64, 60)["atol"]  # means over instances
        assert copy.gap == pytest.approx(results["mds"].gap("greedy"), abs=same)
    assert results["mds"].transfer[0].flagged  # a rectangle
    for copy in results["plain"].copies:
        assert copy.identical < 0.9
        assert copy.gap > 0


@pytest.mark.parametrize("kind", TOUR_COPIES)
def test_copies_are_similar_to_their_originals(kind):
    cities = uniform_cities(20, 6)
    moved = tour_copies(cities, kind)
    ratio = torch.cdist(moved, moved).flatten(1) / torch.cdist(cities, cities).flatten(1)
    ratio = ratio[:, torch.cdist(cities, cities).flatten(1).amin(0) > 0]
    # of distances of at least a hundredth
    bound = tolerance(cities.dtype, 2, condition=100)["atol"]
    assert (ratio.amax(1) - ratio.amin(1)).max() < bound
    assert ((ratio - 1).abs().max() > 0.1) == (kind in ("scaled", "all of these"))
    a, b = cities[:, 1:3] - cities[:, :1], moved[:, 1:3] - moved[:, :1]
    turned_round = (torch.linalg.det(a) * torch.linalg.det(b)) < 0
    assert turned_round.all() == (kind in ("reflected", "all of these"))
    assert torch.equal(tour_copies(cities, kind), moved)
    assert not torch.allclose(tour_copies(cities, kind, seed=1), moved)
