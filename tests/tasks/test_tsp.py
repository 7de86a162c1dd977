import json

import pytest
import torch

from equigeo.cli import main
from equigeo.datasets import optimal_lengths, uniform_cities
from equigeo.mds import AttentionModel, AttentionModelConfig
from equigeo.tasks.tsp import (
    TourConfig,
    TrainedTourModel,
    TravellingSalesman,
    evaluate_tour_model,
    validation_instances,
)
from equigeo.tasks.tsp.task import (
    DECODINGS,
    TOUR_COPIES,
    PolicyGradient,
    RandomInstances,
    find_tours,
    tour_copies,
)
from equigeo.testing import tolerance
from equigeo.training import Recipe
from equigeo.training.data import EpochBatches, LabelledBatch
from equigeo.training.process import derived_generator, isolated_streams
from tests.datasets.tsplib_files import write_library

TRAIN = ("train", "tsp")
SMALL = ("--cities", "6", "--instances", "64", "--batch-size", "32", "--epochs", "2")


def small_tour_model(inputs="mds"):
    """Build a small model whose initial weights are the same everywhere."""
    with isolated_streams():
        torch.manual_seed(0)
        return AttentionModel(AttentionModelConfig(inputs, 16, 2, 2, 32))


@pytest.fixture(autouse=True)
def _few(monkeypatch, tmp_path):
    monkeypatch.setitem(validation_instances.__globals__, "_NUMBER", 50)
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of both networks after the same training."""
    recipe = Recipe(epochs=2, batch_size=32, learning_rate=3e-3)
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(validation_instances.__globals__, "_NUMBER", 50)
        for inputs in ("mds", "plain"):
            config = TourConfig(recipe=recipe, cities=8, instances=1280, model=inputs)
            TravellingSalesman().train(config, folder / inputs, model=small_tour_model(inputs))
    return folder


@pytest.fixture
def trained(runs):
    return {name: TrainedTourModel.load(runs / name / "model.ckpt") for name in ("mds", "plain")}


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


def test_instances_without_noise_are_those_of_their_positions_and_solved_in_parts(monkeypatch):
    source = RandomInstances(50, 9)
    batches = EpochBatches(source, 10, seed=0, epoch=5, noise=False)
    drawn = torch.cat([batches[i].inputs for i in range(5)])
    both = torch.cat([drawn, validation_instances(9)]).flatten(1)
    assert len(both.unique(dim=0)) == 100
    assert torch.equal(source.batch([7, 3]).inputs, source.batch(range(9)).inputs[[7, 3]])
    model, cities = small_tour_model(), torch.rand(9, 6, 2)
    whole = find_tours(model, cities, every_start=True)
    monkeypatch.setitem(find_tours.__globals__, "_AT_ONCE", 200)
    parts = find_tours(model, cities, every_start=True)
    assert torch.equal(parts.order, whole.order)
    assert parts.flagged.shape == (9,)
    assert model.training


def test_gradient_is_that_of_the_expected_length():
    # Three cities after the first: all six tours from each start are enumerated by sampling.
    torch.manual_seed(0)
    model = small_tour_model().double().eval()
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
    four_errors = 4 * drawn.length.std().item() / number**0.5
    assert length.item() / number == pytest.approx(expected.item(), abs=four_errors)
    # the baseline holds a quarter of the tour itself, and the deviation is a factor
    cosine = torch.nn.functional.cosine_similarity(got.flatten(), want.flatten(), 0)
    assert cosine > 0.98


def test_batch_of_equal_tours_has_no_gradient():
    model = small_tour_model()
    batch = LabelledBatch(torch.rand(4, 3, 2), torch.zeros(4), 4)  # one tour, whatever its start
    loss, _ = PolicyGradient().sums(model, batch)
    loss.backward()
    assert all(p.grad.abs().max() < 0.02 for p in model.parameters())


@pytest.mark.full
def test_training_shortens_tours(trained):
    for inputs, result in trained.items():
        with isolated_streams():
            before = (
                find_tours(small_tour_model(inputs), validation_instances(8)).length.mean().item()
            )
        last = result.history[-1]
        assert last["train_length"] < result.history[0]["train_length"]
        assert last["greedy_length"] < 0.9 * before
        assert last["multistart_length"] < last["greedy_length"]


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
        transfer = [(e.name, e.cities, e.best) for e in result.transfer]
        assert transfer == [("box", 4, 14), ("ring", 7, 52)]
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


def test_command_line_trains_evaluates_and_resumes(tmp_path, capsys):
    run = tmp_path / "run"
    assert main([*TRAIN, "--output", str(run), *SMALL]) == 0
    out, err = capsys.readouterr()
    assert "mean length of greedy tours" in out
    assert "64 random instances of 6 cities per epoch, mds model, 2 epochs" in err
    assert "length" in err.splitlines()[-1]
    config = TourConfig.from_dict(json.loads((run / "config.json").read_text()))
    assert (config.cities, config.instances, config.recipe.epochs) == (6, 64, 2)
    checkpoint, results = str(run / "model.ckpt"), run.parent / "r.json"
    data = str(write_library(run.parent / "library"))
    options = ["--instances", "20", "--seed", "1", "--data", data, "--json", str(results)]
    assert main(["evaluate", checkpoint, *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    saved = json.loads(results.read_text())
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    for name in DECODINGS:
        assert lines[name].endswith(f"{saved['gaps'][name]:.2%}")
    for kind in TOUR_COPIES:
        assert "100.00%" in lines[kind]
    assert lines["ring"].split()[1] == "52"
    assert len(saved["transfer"]) == 2
    assert main(["evaluate", checkpoint, "--instances", "20"]) == 0  # without a library
    assert "TSPLIB" not in capsys.readouterr().out
    assert main([*TRAIN, "--output", str(run), "--resume"]) == 0
    assert "trained 2 epochs" in capsys.readouterr().out
