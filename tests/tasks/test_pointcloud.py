import copy
import json
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from equigeo.cli import main
from equigeo.datasets import PointClouds, load_cloud_folder, load_modelnet_points
from equigeo.mds import InvariantPointNet, InvariantPointNetConfig
from equigeo.tasks.common.measures import CLOUD_COPIES
from equigeo.tasks.pointcloud import (
    POINT_MODELS,
    POINT_PRESETS,
    PointCloudClassification,
    PointConfig,
    TrainedPointClassifier,
    evaluate_point_classifier,
)
from equigeo.tasks.pointcloud.task import (
    LabelledClouds,
    UprightCrossEntropy,
    fewer_points,
    load_clouds,
)
from equigeo.tasks.pointcloud.task import _evaluate as evaluate_clouds
from equigeo.testing import tolerance
from equigeo.training import Recipe
from equigeo.training.data import EpochBatches, LabelledBatch
from equigeo.training.loop.module import update_bn
from equigeo.training.objective import CrossEntropy
from equigeo.training.process import enter_stream
from tests.make_data import DATA
from tests.mesh.definitions import assert_close
from tests.tasks import stand_in
from tests.tasks.tiny_checkpoints import tiny_checkpoints
from tests.tasks.tiny_data import assert_same_state, write_tiny_folder
from tests.wrong_inputs import refused


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return stand_in.write_tiny_clouds(tmp_path_factory.mktemp("clouds"))


@pytest.fixture
def config(folder):
    recipe = Recipe(epochs=3, batch_size=6, learning_rate=1e-2, jitter=0.01, ema_decay=0.5)
    return PointConfig(str(folder), recipe=recipe, points=32)


@pytest.fixture(autouse=True)
def _model(monkeypatch):
    monkeypatch.setitem(POINT_MODELS, "affine", stand_in.PointNet)


TRAIN = ("train", "pointcloud")


def load_tiny(tmp_path):
    """Return the untrained classifier of tiny_checkpoints, for the classes ball, rod and shell."""
    tiny_checkpoints()["pointcloud mds"].save(tmp_path / "tiny.ckpt")
    return TrainedPointClassifier.load(tmp_path / "tiny.ckpt")


def _are_among(few, many):
    same = (few[:, :, None] == many[:, None]).all(dim=-1)
    return bool(same.any(dim=-1).all())


def test_training_draws_points_anew_and_evaluation_once_for_all(config, folder):
    train, test, _ = load_clouds(config)
    assert (train.points.shape, test.points.shape) == ((24, 48, 3), (12, 32, 3))
    assert torch.equal(load_clouds(replace(config, seed=3))[1].points, test.points)
    whole = load_modelnet_points(folder, "test").points
    assert _are_among(test.points, whole)
    assert not torch.equal(test.points, whole[:, :32])

    source = LabelledClouds(train.points, train.labels, 32)
    first, second = (
        source.batch([3, 1], generator=torch.Generator().manual_seed(s)).inputs for s in (0, 1)
    )
    assert first.shape == (2, 32, 3)
    assert not torch.equal(first, second)
    assert all(len(cloud.unique(dim=0)) == 32 for cloud in first)
    assert _are_among(first, train.points[[3, 1]])
    still = source.batch([3, 1]).inputs
    # of a cloud the same points in any batch
    assert torch.equal(still, fewer_points(train.points, 32)[[3, 1]])
    assert torch.equal(source.batch([3, 1]).inputs, still)
    assert torch.equal(source.batch([1]).inputs, still[1:])
    batches = [torch.cat([b.inputs for b in source.batches(size)]) for size in (5, 24)]
    assert torch.equal(*batches)
    noisy = LabelledClouds(train.points, train.labels, 48, jitter=0.1)
    moved = noisy.batch([0], generator=torch.Generator().manual_seed(0)).inputs
    five_errors = 5 / (2 * moved.numel()) ** 0.5  # of a deviation of so many numbers
    assert (moved - train.points[0]).std().item() == pytest.approx(0.1, rel=five_errors)


def drawn(points, seed=0, number=None, **noise):
    """Return a batch of all clouds with noise."""
    source = LabelledClouds(points, torch.zeros(len(points)), number or points.shape[1], **noise)
    return source.inputs(torch.arange(len(points)), torch.Generator().manual_seed(seed))


def test_stretch_and_resampling_are_drawn_with_the_generator_and_absent_at_zero():
    points = torch.randn(6, 50, 3, generator=torch.Generator().manual_seed(1))
    generator = torch.Generator().manual_seed(0)
    kept = torch.rand(6, 50, generator=generator).topk(40, dim=1).indices
    few = points.gather(1, kept[..., None].expand(-1, -1, 3))
    noisy = few + 0.1 * torch.randn(6, 40, 3, generator=generator)
    assert torch.equal(drawn(points, number=40, jitter=0.1, stretch=0.0, resample=0.0), noisy)
    for noise in ({"stretch": 0.2}, {"resample": 1.0}, {"stretch": 0.2, "resample": 1.0}):
        first, again, other = (drawn(points, seed, 40, **noise) for seed in (0, 0, 1))
        assert first.shape == (6, 40, 3)
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        recipe = Recipe(1, 2, 1e-3, **noise)
        clouds = PointClouds(points, torch.arange(6) % 2, ("a", "b"))
        plan = PointCloudClassification().plan(
            PointConfig("x", recipe=recipe, points=40), (clouds, clouds)
        )
        batch = plan.train.batch(range(6), generator=torch.Generator().manual_seed(0))
        assert torch.equal(batch.inputs, first)


def test_stretched_clouds_keep_their_volume_and_centre():
    points = torch.randn(200, 50, 3, generator=torch.Generator().manual_seed(1)).double()
    factors = torch.linalg.lstsq(points, drawn(points, stretch=0.2)).solution
    assert_close(factors, factors.mT, terms=64, condition=100)
    assert_close(torch.linalg.det(factors), torch.ones(200).double(), terms=64, condition=100)
    logarithms = torch.linalg.eigvalsh(factors).log()
    # five of the six entries without trace, of deviation 0.2 or, off the diagonal, 0.2 / sqrt(2)
    spread = (logarithms.square().sum(1).mean() / (0.2**2 * 5)).sqrt()
    assert spread.item() == pytest.approx(1, rel=5 / (2 * 5 * 200) ** 0.5)


def test_resampled_clouds_lose_points_within_bounds_or_get_outliers():
    points = torch.randn(1000, 100, 3, generator=torch.Generator().manual_seed(1))
    found = drawn(points, resample=0.8)
    assert found.shape == points.shape
    same = (found[:, :, None] == points[:, None]).all(-1)
    left, own = same.any(1).sum(1), same.any(2)
    # 80 % are changed, by four ways; hardly any loss of many points leaves all
    share = [(left == 100), own.all(1) & (left < 100), ~own.all(1)]
    whole, lost, outliers = (x.double().mean().item() for x in share)
    assert (whole, lost) == pytest.approx((0.33, 0.6), abs=0.05)  # three errors, and few losses
    assert 0.04 < outliers < 0.14  # of 20 %, those with one at least: on average half of 1 %
    assert left.min() > 100 * (1 - 0.75) - 5 * (100 * 0.75 * 0.25) ** 0.5
    assert left.min() < 50
    assert (~own).sum(1).max() <= 1 + 5
    center = points.mean(1, keepdim=True)
    radius = (points - center).norm(dim=-1).amax(1, keepdim=True)
    ratio = ((found - center).norm(dim=-1) / radius)[~own]
    assert ratio.min() > 1 - ROUNDING
    assert ratio.max() < 2 + ROUNDING
    assert ratio.max() > 1.8
    # repeated points take the place of lost ones evenly
    copies = same.sum(1)[own.all(1)]
    assert copies.sum(1).eq(100).all()
    assert ((copies.amax(1) - (copies + 101 * (copies == 0)).amin(1)) <= 1).all()


@pytest.mark.parametrize("share", [0.5, 1e-18, 1e-19, 5e-324])
def test_clouds_that_are_not_resampled_keep_the_order_of_their_points(share):
    points = torch.randn(1000, 20, 3, generator=torch.Generator().manual_seed(1))
    same = (drawn(points, resample=share) == points).all(2).all(1).double().mean().item()
    assert same == pytest.approx(1 - share, abs=5 * (share * (1 - share) / 1000) ** 0.5)


def test_resampling_thins_out_a_half_or_cuts_an_end_of_some_clouds():
    points = torch.linspace(-1, 1, 100)[None, :, None] * torch.tensor([1.0, 0, 0])
    found = drawn(points.expand(1000, -1, -1), resample=1.0)[..., 0]
    same = found[:, :, None] == points[..., 0]
    own, there = (
        same.any(2).all(1),
        same.any(1),
    )  # all but those with outliers, points that are left
    turned = there[:, :50].sum(1) < there[:, 50:].sum(1)
    there = torch.where(turned[:, None], there.flip(1), there)
    second = there[:, 50:].sum(1)
    changed = own & there[:, :50].all(1) & (second < 50)
    cut = changed & (there.int().cumprod(1).sum(1) == there.sum(1))
    five_errors = 5 * (0.25 / 1000) ** 0.5
    assert cut.double().mean().item() == pytest.approx(0.25, abs=five_errors)
    assert changed.double().mean().item() == pytest.approx(0.5, abs=five_errors)
    assert 69 <= 50 + second[cut].min() < 75
    assert second[changed & ~cut].min() < 20  # of 12.5 or more, with a deviation of 3


def test_holding_out_leaves_the_test_file_unopened(config, folder, tmp_path):
    (tmp_path / "data").mkdir()
    file = "modelnet10_train.npz"
    (tmp_path / "data" / file).write_bytes((folder / file).read_bytes())
    held = replace(config, data=str(tmp_path / "data"), holdout=2)
    train, evaluated, _ = load_clouds(held)
    assert train.labels.bincount().tolist() == [6, 6, 6]
    assert evaluated.labels.bincount().tolist() == [2, 2, 2]
    assert torch.cdist(evaluated.points.flatten(1), train.points[:, :32].flatten(1)).amin() > 0.1
    assert len(PointCloudClassification().train(held, tmp_path / "run").history) == 3
    refused(r"modelnet10_test_a\.npz: no such file", load_clouds, replace(held, holdout=0))
    refused("class 'ball' has 8 training clouds, too few", load_clouds, replace(held, holdout=8))


def test_other_data_mean_their_test_part_and_trained_clouds_are_counted(config, folder, tmp_path):
    held = replace(config, holdout=2)
    trained = PointCloudClassification().train(held, tmp_path / "run")
    own = evaluate_point_classifier(trained)
    assert (len(own.labels), own.trained_on) == (6, 0)
    assert evaluate_point_classifier(trained, data=held.data) == own
    other = shutil.copytree(folder, tmp_path / "other")
    found = evaluate_point_classifier(trained, data=str(other))
    assert (len(found.labels), found.trained_on) == (12, 0)
    shutil.copy(other / "modelnet10_train.npz", other / "modelnet10_test_a.npz")
    again = evaluate_point_classifier(trained, data=str(other))
    assert (len(again.labels), again.trained_on) == (24, 18)


def test_data_that_do_not_fit_are_refused(config, folder, tmp_path):
    with pytest.raises(ValueError, match="clouds have 48 points, not 49"):
        PointCloudClassification().train(replace(config, points=49), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    foreign = stand_in.write_tiny_clouds(tmp_path / "foreign")
    for file in foreign.iterdir():
        np.savez(file, **(dict(np.load(file)) | {"classes": np.array(["a", "b", "c"])}))
    trained = replace(load_tiny(tmp_path), config=config)
    with pytest.raises(ValueError, match="have the classes a, b, c, the checkpoint ball"):
        evaluate_point_classifier(trained, data=str(foreign))


LABELS = torch.tensor([0] * 6 + [1] * 3 + [2])


def test_pairs_of_class_and_direction_are_one_classification():
    class Pairs(nn.Module):
        def pairs(self, x):
            return x.unflatten(1, (3, 6)), torch.arange(10) % 6

    recipe = Recipe(1, 1, 1e-3, label_smoothing=0.1, logit_adjustment=0.5)
    inputs = torch.randn(10, 18, generator=torch.Generator().manual_seed(1))
    batch = LabelledBatch(inputs, LABELS, 10)
    objective = UprightCrossEntropy(CrossEntropy.of(recipe, LABELS, 3))
    loss, right = objective.sums(Pairs(), batch)
    shares = torch.tensor([0.6, 0.3, 0.1]).repeat_interleave(6)
    expected = F.cross_entropy(
        inputs + 0.5 * shares.log(),
        6 * LABELS + torch.arange(10) % 6,
        label_smoothing=0.1,
        reduction="sum",
    )
    torch.testing.assert_close(loss, expected)
    classes = inputs.exp().unflatten(1, (3, 6)).sum(-1)
    assert right == (classes.argmax(1) == LABELS).sum()


ROUNDING = tolerance(torch.float32, 64)["atol"]  # of logits, in their deviation


def test_training_learns_and_measures_invariance(config, tmp_path):
    config = replace(config, recipe=replace(config.recipe, epochs=25))
    trained = PointCloudClassification().train(config, tmp_path / "run")
    last = trained.history[-1]
    assert last["test_accuracy"] > 0.8  # chance is a third
    assert last["rotated_accuracy"] == last["test_accuracy"]
    assert last["logit_change"] < ROUNDING
    result = evaluate_point_classifier(trained)
    assert result.accuracy == last["test_accuracy"]
    assert sum(map(sum, result.confusion)) == len(result.labels) == 12
    changed = {copy.kind: copy.changed for copy in result.copies}
    assert list(changed) == list(CLOUD_COPIES) == list(result.logit_changes)
    for kind in ("rotated", "reflected", "translated", "re-ordered"):
        assert changed[kind] == []
        assert result.logit_changes[kind] < ROUNDING
    for kind in ("scaled", "sheared"):  # which this model does not promise
        assert result.logit_changes[kind] > 1e-2
    assert json.loads(json.dumps(result.to_dict()))["accuracy"] == result.accuracy


@pytest.mark.full
def test_a_class_and_what_is_up_are_learned_together_in_drawn_frames(config, tmp_path):
    folder = stand_in.write_tiny_clouds(tmp_path / "standing")
    for file in folder.glob("*.npz"):
        arrays = dict(np.load(file))
        height = np.abs(arrays["points"][..., 2] / 32767.0)  # many points below, few above
        arrays["points"][..., 2] = np.round(32767 * height**2)
        np.savez(file, **arrays)
    recipe = replace(config.recipe, epochs=30, logit_adjustment=0.5)
    config = replace(config, data=str(folder), model="mds", preset="pointnet", recipe=recipe)
    settings = InvariantPointNetConfig(
        3, kind="frames", training_kind="frames", training_sample=True, upright=True
    )
    trained = PointCloudClassification().train(
        config, tmp_path / "run", model=InvariantPointNet(settings)
    )
    assert trained.model.config == settings
    train = load_clouds(config).train
    logits, up = trained.model.pairs(train.points)
    assert (logits.logsumexp(1).argmax(-1) == up).double().mean() > 0.5  # chance is a sixth
    result = evaluate_point_classifier(trained)
    assert result.accuracy > 0.6  # chance is a third
    assert [copy.changed for copy in result.copies if copy.kind == "rotated"] == [[]]


@pytest.mark.parametrize("model", ["plain", "mds"])
def test_averaged_weights_get_statistics_of_their_own(model, config, tmp_path):
    task, runs = PointCloudClassification(), []
    settings = {"groups": (8, 4), "neighbors": 4, "widths": ((8,), (8,)), "features": 16}
    for decay, update in ((0.0, False), (0.5, False), (0.5, True)):
        recipe = replace(config.recipe, ema_decay=decay, update_bn=update, resample=0.5)
        given = replace(config, model=model, preset="pointnet++", recipe=recipe)
        torch.manual_seed(0)
        network = POINT_MODELS[model].preset("pointnet++", 3, settings=settings)
        runs.append(task.train(given, tmp_path / f"{decay} {update}", model=network))
    last, lagging, updated = (run.model for run in runs)
    assert len({run.history[-1]["train_accuracy"] for run in runs}) == 1  # the same training
    parameters = [dict(each.named_parameters()) for each in (last, lagging, updated)]
    assert_same_state(*parameters[1:])
    bias = "invariant.network." + "network." * (model == "mds") + "head.last.bias"
    assert not torch.equal(parameters[0][bias], parameters[1][bias])
    # over all clouds without noise, of as many points as in training and evaluation
    plan = task.plan(given, load_clouds(given), lagging)
    batches = EpochBatches(plan.train, 6, seed=0, epoch=recipe.epochs, noise=False)
    steps = [batches[step] for step in range(len(batches))]
    assert {step.inputs.shape for step in steps} == {(6, 32, 3)}
    lag = dict(copy.deepcopy(lagging).named_buffers())
    enter_stream(0, "update_bn", recipe.epochs - 1)  # of frames
    update_bn(lagging, steps, plan.objective.sums)
    expected, found = (dict(each.named_buffers()) for each in (lagging, updated))
    assert_same_state(found, expected)
    changed = [name for name in found if not torch.equal(found[name], lag[name])]
    assert any(name.endswith("running_var") for name in changed)


def test_a_network_without_the_symmetry_fails_rotated(config, tmp_path):
    config = replace(config, recipe=replace(config.recipe, epochs=12))
    model = stand_in.PointNet(3, invariant=False)
    trained = PointCloudClassification().train(config, tmp_path / "run", model=model)
    assert trained.history[-1]["logit_change"] > 0.05


def test_no_embedding_is_the_plain_model_which_fails_rotated(folder, tmp_path, capsys):
    run = tmp_path / "run"
    options = ("--epochs", "12", "--batch-size", "6", "--points", "32", "--lr", "0.01")
    arguments = ("--data", str(folder), "--output", str(run), *options)
    assert main([*TRAIN, *arguments, "--no-embedding", "--preset", "pointnet"]) == 0
    config = PointConfig.from_dict(json.loads((run / "config.json").read_text()))
    assert (config.model, config.preset) == ("plain", "pointnet")
    recipe = POINT_PRESETS[config.model][config.preset].recipe
    assert config.recipe == replace(recipe, epochs=12, batch_size=6, learning_rate=0.01)
    assert "next: equigeo evaluate" in capsys.readouterr().out
    assert main(["evaluate", str(run / "model.ckpt")]) == 0
    out = capsys.readouterr().out
    assert "accuracy upright" in out
    assert "equal predictions upright and rotated: " in out
    assert "flagged by the embedding" not in out  # it has none
    result = evaluate_point_classifier(TrainedPointClassifier.load(run / "model.ckpt"))
    assert (result.flagged, result.unflagged_accuracy) == (None, {})
    by_kind = {copy.kind: copy for copy in result.copies}
    assert by_kind["scaled"].changed == by_kind["translated"].changed == []
    assert result.logit_changes["rotated"] > 0.05


def test_models_behind_an_embedding_say_which_clouds_are_doubtful(config, folder, tmp_path):
    config = replace(config, model="mds", preset="pointnet")
    trained = PointCloudClassification().train(config, tmp_path / "run")
    result = evaluate_point_classifier(trained)
    assert result.flagged == []
    kinds = {copy.kind: copy.accuracy for copy in result.copies}
    assert result.unflagged_accuracy == {"upright": result.accuracy, **kinds}
    assert [copy.changed for copy in result.copies if copy.kind == "rotated"] == [[]]

    doubtful = tmp_path / "doubtful"
    stand_in.write_tiny_clouds(doubtful)
    arrays = dict(np.load(doubtful / "modelnet10_test_a.npz"))
    half = arrays["points"][:2, :24]
    arrays["points"][:2] = np.concatenate([half, -half], axis=1)
    np.savez(doubtful / "modelnet10_test_a.npz", **arrays)
    whole = TrainedPointClassifier(
        trained.model, trained.classes, replace(config, points=48), trained.version
    )
    result = evaluate_point_classifier(whole, data=str(doubtful))
    assert result.flagged == [0, 1]
    right = [p == y for p, y in zip(result.predictions, result.labels, strict=True)]
    assert result.unflagged_accuracy["upright"] == pytest.approx(sum(right[2:]) / 10)


def test_command_line_trains_evaluates_and_resumes(folder, tmp_path, capsys):
    run, options = tmp_path / "run", ("--epochs", "2", "--batch-size", "6", "--points", "24")
    arguments = ("--data", str(folder), "--output", str(run), *options, "--model", "mds")
    assert main([*TRAIN, *arguments]) == 0
    out, err = capsys.readouterr()
    assert "rotated accuracy" in out
    assert "equivariance error" in out
    assert "24 points each, mds model, default preset, 2 epochs" in err
    config = PointConfig.from_dict(json.loads((run / "config.json").read_text()))
    assert (config.points, config.model, config.recipe.epochs) == (24, "mds", 2)
    checkpoint, results = str(run / "model.ckpt"), tmp_path / "r.json"
    assert main(["evaluate", checkpoint, "--seed", "1", "--json", str(results)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    saved = json.loads(results.read_text())
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    for kind in CLOUD_COPIES:
        assert lines[kind].endswith(f"{saved['logit_changes'][kind]:.1e}")
    assert lines["all"].split()[2] == "12"
    (rotated,) = (copy for copy in saved["copies"] if copy["kind"] == "rotated")
    assert f"accuracy upright {saved['accuracy']:.2%}, rotated {rotated['accuracy']:.2%}" in out
    assert "equal predictions upright and rotated: 100.00%" in out
    assert "flagged by the embedding at default thresholds: 0.00%" in out
    assert f"without flagged clouds: upright {saved['unflagged_accuracy']['upright']:.2%}" in out
    assert saved["flagged"] == []
    assert main([*TRAIN, "--output", str(run), "--resume"]) == 0
    assert "trained 2 epochs" in capsys.readouterr().out


def test_clouds_of_ones_own_are_trained_on_evaluated_and_predicted(tmp_path, capsys):
    data, run = DATA / "clouds", tmp_path / "run"
    recipe = Recipe(epochs=1, batch_size=9, learning_rate=1e-2)
    PointCloudClassification().train(PointConfig(str(data), recipe=recipe, points=100), run)
    checkpoint = str(run / "model.ckpt")
    assert main(["evaluate", checkpoint]) == 0
    assert "glasses" in capsys.readouterr().out
    assert main(["predict", checkpoint, str(data), "--top", "3", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [entry["file"] for entry in found] == sorted(map(str, data.glob("*/*/*.*")))
    for entry in found:
        assert {name for name, _ in entry["ranking"]} == {"bird", "glasses", "horse"}
    (tmp_path / "few.xyz").write_text("1 2 3\n4 5 6\n")
    files = [str(tmp_path / "few.xyz"), found[0]["file"]]
    assert main(["predict", checkpoint, *files]) == 2
    out, err = capsys.readouterr()
    assert err == f"equigeo: error: {files[0]}: has 2 points, the model takes 100\n"
    assert out.startswith(f"{files[1]}: ")
    assert main(["predict", checkpoint, files[1], "--view", "--output", str(tmp_path)]) == 2
    assert "no faces" in capsys.readouterr().err


def test_a_validation_split_is_evaluated_in_training_and_the_test_split_afterwards(tmp_path):
    for label, name in enumerate(("bird", "horse")):
        for part, number in (("train", 2), ("val", 1), ("test", 2)):
            folder = tmp_path / "data" / name / part
            folder.mkdir(parents=True)
            for k in range(number):
                random = np.random.default_rng([label, number, k, part == "test"])
                np.save(folder / f"{k}.npy", random.normal(size=(40, 3)))
    recipe = Recipe(epochs=1, batch_size=4, learning_rate=1e-2)
    data = str(tmp_path / "data")
    config = PointConfig(data, recipe=recipe, points=30, model="plain", preset="pointnet")
    trained = PointCloudClassification().train(config, tmp_path / "run")
    assert trained.history[-1]["test_accuracy"] is None
    val = load_clouds(config, validate=True)
    assert (len(val.train), len(val.evaluated), val.measure) == (4, 2, "val_accuracy")
    measured = evaluate_clouds(val.evaluated, "val_accuracy", trained.model)
    assert trained.history[-1]["val_accuracy"] == measured["val_accuracy"]
    assert PointCloudClassification().summarize(trained)[0].startswith("validation accuracy ")
    assert len(evaluate_point_classifier(trained).labels) == 4
    assert len(load_cloud_folder(data, 30)[1]) == 4
    with pytest.raises(ValueError, match="a validation split, val; leave out --holdout"):
        load_clouds(replace(config, holdout=1))


def test_parts_are_drawn_by_fractions_and_other_data_are_evaluated_as_shipped(config, tmp_path):
    for label, name in enumerate(("bird", "horse")):
        (tmp_path / "data" / name).mkdir(parents=True)
        for k in range(4):
            points = np.random.default_rng([label, k]).normal(size=(40, 3))
            np.save(tmp_path / "data" / name / f"{k}.npy", points)
    data, recipe = str(tmp_path / "data"), Recipe(epochs=1, batch_size=4, learning_rate=1e-2)
    given = PointConfig(data, recipe=recipe, points=30, split="0.5,0.25,0.25")
    parts = load_cloud_folder(data, 30, (0.5, 0.25, 0.25))
    assert [len(part) for part in parts] == [4, 2]
    val = load_clouds(given, validate=True)
    assert (len(val.train), len(val.evaluated), val.measure) == (4, 2, "val_accuracy")
    assert torch.equal(load_clouds(replace(given, holdout=0)).train.points, parts[0].points)
    assert ", split 0.5,0.25,0.25" in PointCloudClassification().describe(given, val)
    trained = PointCloudClassification().train(given, tmp_path / "run")
    assert len(evaluate_point_classifier(trained).labels) == 2
    other = f"{data}/../data"
    evaluated = partial(evaluate_point_classifier, trained, data=other)
    for call in (evaluated, partial(load_clouds, replace(given, split="folder"))):
        refused("found no class folders.* --split 0.7,0.15,0.15, draws", call)
    assert len(evaluated(split="0.25,0.75").labels) == 6
    evaluate = ["evaluate", str(tmp_path / "run/model.ckpt"), "--data", other, "--allow-trained"]
    assert main([*evaluate, "--split", "0.5,0.5", "--json", str(tmp_path / "found.json")]) == 0
    assert len(json.loads((tmp_path / "found.json").read_text())["labels"]) == 4
    refused("has parts of its own", load_clouds, replace(config, split="0.5,0.5"))
    refused("split must be folder or positive fractions", PointConfig, "x", split="17")


def test_predict_sees_the_points_of_a_surface_that_evaluation_sees(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))
    data = write_tiny_folder(tmp_path / "data", 1, 1)
    config = PointConfig(str(data), points=24)
    whole = load_cloud_folder(data, 24)[1].points
    assert whole.shape[1] > 24
    seen = []
    monkeypatch.setattr(
        TrainedPointClassifier, "logits", lambda _, x: seen.append(x) or torch.zeros(1, 3)
    )
    trained = replace(load_tiny(tmp_path), config=config)
    for i, name in enumerate(("ball", "capsule", "torus")):
        PointCloudClassification().predict(trained, data / name / "test" / "T1.obj")
        assert seen[i].shape == (1, 24, 3)
        assert _are_among(seen[i], whole[i : i + 1])
    assert _are_among(load_clouds(config)[1].points, whole)
