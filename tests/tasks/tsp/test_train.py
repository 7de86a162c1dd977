"""Training of models of tours: it learns, resumes exactly, and measures what it claims."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from equigeo.datasets import optimal_lengths, uniform_cities
from equigeo.mds import AttentionModel, AttentionModelConfig
from equigeo.tasks.tsp import (
    DECODINGS,
    TOUR_COPIES,
    TOUR_RECIPES,
    TourConfig,
    TrainedTourModel,
    TravellingSalesman,
    evaluate_tour_model,
    validation_instances,
)
from equigeo.tasks.tsp import validation_instances as function
from equigeo.tasks.tsp.data import RandomInstances
from equigeo.tasks.tsp.find_tours import find_tours
from equigeo.tasks.tsp.objective import PolicyGradient
from equigeo.tasks.tsp.tour_copies import tour_copies
from equigeo.training import CheckpointError, Recipe, time_limit
from equigeo.training.labelled_source import LabelledBatch
from equigeo.training.random_state import derived_generator, isolated_streams
from tests.datasets.tsplib_files import write_library


@pytest.fixture(autouse=True)
def _few(monkeypatch, tmp_path):
    monkeypatch.setitem(function.__globals__, "_NUMBER", 50)
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))


def small(inputs="mds"):
    with isolated_streams():
        torch.manual_seed(0)
        return AttentionModel(AttentionModelConfig(inputs, 16, 2, 2, 32))


@pytest.fixture
def config():
    recipe = Recipe(epochs=2, batch_size=32, learning_rate=3e-3, ema_decay=0.5)
    return TourConfig(recipe=recipe, cities=7, instances=96)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Both networks after the same training; tests must not change them."""
    recipe = Recipe(epochs=2, batch_size=32, learning_rate=3e-3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(function.__globals__, "_NUMBER", 50)
        return {
            inputs: TravellingSalesman().train(
                TourConfig(recipe=recipe, cities=8, instances=1280, model=inputs),
                tmp_path_factory.mktemp("runs") / inputs,
                model=small(inputs),
            )
            for inputs in ("mds", "plain")
        }


def test_training_shortens_tours(trained):
    for inputs, result in trained.items():
        with isolated_streams():
            before = find_tours(small(inputs), validation_instances(8)).length.mean().item()
        last = result.history[-1]
        assert last["train_length"] < result.history[0]["train_length"]
        assert last["greedy_length"] < 0.9 * before
        assert last["multistart_length"] < last["greedy_length"]


def test_any_number_of_sessions_ends_with_the_weights_of_one(config, tmp_path):
    whole = TravellingSalesman().train(config, tmp_path / "whole", model=small())
    part = TravellingSalesman().train(
        config, tmp_path / "parts", model=small(), callbacks=time_limit(1e-9)
    )
    while len(part.history) < 2:
        part = TravellingSalesman().train(
            config, tmp_path / "parts", model=small(), resume=True, callbacks=time_limit(1e-9)
        )
    left, right = part.model.state_dict(), whole.model.state_dict()
    assert all(torch.equal(left[name], right[name]) for name in right)
    for first, second in zip(part.history, whole.history, strict=True):
        assert {**first, "seconds": 0} == {**second, "seconds": 0}
    other = TravellingSalesman().train(replace(config, seed=1), tmp_path / "other", model=small())
    assert not torch.equal(other.model.encoder.first.weight, whole.model.encoder.first.weight)


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
        assert copy.gap == pytest.approx(results["mds"].gap("greedy"), abs=1e-12)
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
    assert (ratio.amax(1) - ratio.amin(1)).max() < 1e-6
    assert ((ratio - 1).abs().max() > 0.1) == (kind in ("scaled", "all of these"))
    a, b = cities[:, 1:3] - cities[:, :1], moved[:, 1:3] - moved[:, :1]
    turned_round = (torch.linalg.det(a) * torch.linalg.det(b)) < 0
    assert turned_round.all() == (kind in ("reflected", "all of these"))
    assert torch.equal(tour_copies(cities, kind), moved)
    assert not torch.allclose(tour_copies(cities, kind, seed=1), moved)


def test_the_gradient_is_that_of_the_expected_length():
    """Three cities after the first: all six tours from each start are enumerated by sampling."""
    torch.manual_seed(0)
    model = small().double().eval()
    cities = torch.rand(1, 4, 2, dtype=torch.float64)
    weight = model.decoder.project.weight

    starts = torch.arange(4).repeat_interleave(400)[None]
    drawn = model(cities, starts, sample=True)
    orders, first = {}, []
    for i, order in enumerate(drawn.order[0].tolist()):
        if orders.setdefault(tuple(order), i) == i:
            first.append(i)
    assert len(first) == 24  # every tour was drawn
    expected = (drawn.log_prob[0, first].exp() * drawn.length[0, first]).sum() / 4
    want = torch.autograd.grad(expected, weight)[0]

    number = 20_000
    batch = LabelledBatch(cities.expand(number, -1, -1), torch.zeros(number), number)
    loss, length = PolicyGradient().sums(model, batch)
    got = torch.autograd.grad(loss / number, weight)[0]
    assert length.item() / number == pytest.approx(expected.item(), rel=0.01)
    # the baseline holds a quarter of the tour itself, and the deviation is a factor
    cosine = torch.nn.functional.cosine_similarity(got.flatten(), want.flatten(), 0)
    assert cosine > 0.98


def test_a_batch_of_equal_tours_has_no_gradient():
    model = small()
    batch = LabelledBatch(torch.rand(4, 3, 2), torch.zeros(4), 4)  # one tour, whatever its start
    loss, _ = PolicyGradient().sums(model, batch)
    loss.backward()
    assert all(p.grad.abs().max() < 0.02 for p in model.parameters())


def test_instances_are_drawn_anew_in_every_step():
    source = RandomInstances(100, 9)
    assert len(source) == 100
    first, again, second = (
        source.batch(range(5), generator=derived_generator(0, "jitter", i)).inputs
        for i in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert (first.shape, first.dtype) == ((5, 9, 2), torch.float64)
    assert ((0 <= first) & (first < 1)).all()
    assert torch.equal(validation_instances(9), validation_instances(9))


def test_instances_are_solved_some_at_a_time(monkeypatch):
    model, cities = small(), torch.rand(9, 6, 2)
    whole = find_tours(model, cities, every_start=True)
    monkeypatch.setitem(find_tours.__globals__, "_AT_ONCE", 200)
    parts = find_tours(model, cities, every_start=True)
    assert torch.equal(parts.order, whole.order)
    assert parts.flagged.shape == (9,)
    assert model.training


def test_divergence_is_one_error(config, tmp_path):
    model = small()
    with torch.no_grad():
        model.decoder.mean.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="the loss of epoch 1 is nan: training diverged"):
        TravellingSalesman().train(config, tmp_path / "run", model=model)
    assert not (tmp_path / "run" / "model.ckpt").exists()


def test_a_damaged_model_is_refused(config, tmp_path):
    TravellingSalesman().train(replace(config, instances=4), tmp_path, model=small())
    content = torch.load(tmp_path / "model.ckpt", weights_only=True)
    for change in ({"heads": 3}, {"colour": 1}):
        damaged = content | {"config": content["config"] | {"model": change}}
        torch.save(damaged, tmp_path / "model.ckpt")
        with pytest.raises(CheckpointError, match="does not fit this version's model of tours"):
            TrainedTourModel.load(tmp_path / "model.ckpt")


@pytest.mark.parametrize("preset", TOUR_RECIPES)
def test_the_configuration_survives_json(preset):
    config = TourConfig("uniform", TOUR_RECIPES[preset], preset, 3, 2, 1, "plain", 50, 9)
    assert TourConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "clusters"}, "data must be uniform"),
        ({"model": "best"}, "model must be one of mds, plain"),
        ({"cities": 2}, "cities must be at least 3"),
        ({"instances": 0}, "instances must be at least 1"),
        ({"seed": -1}, "seed must not be negative"),
        ({"preset": "large"}, "preset must be one of default, paper"),
        ({"recipe": Recipe(1, 2, 1e-3, jitter=0.1)}, "jitter must be 0 for tours"),
        ({"recipe": Recipe(1, 2, 1e-3, label_smoothing=0.1)}, "label_smoothing must be 0"),
        ({"recipe": Recipe(1, 2, 1e-3, logit_adjustment=1)}, "logit_adjustment must be 0"),
    ],
)
def test_a_configuration_out_of_range_names_its_field(changes, message):
    with pytest.raises(ValueError, match=message):
        TourConfig(**changes)
