import json
import sys
from dataclasses import replace

import pytest
import torch
from PIL import Image
from torch import nn

from equigeo.cli import main
from equigeo.datasets import AffNIST, HomNIST, load_digits
from equigeo.datasets.digits.transformed import centred
from equigeo.tasks.affnist import (
    IMAGE_RECIPES,
    AffNISTClassification,
    ImageConfig,
    TrainedImageClassifier,
    evaluate_image_classifier,
    logit_change,
)
from equigeo.tasks.affnist.task import LabelledImages, PlainCNN, PlainCNNConfig
from equigeo.testing import tolerance
from equigeo.training import Recipe
from tests.tasks import stand_in
from tests.wrong_inputs import refused


@pytest.fixture(autouse=True)
def _model():
    with stand_in.installed():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return stand_in.write_tiny_mnist(tmp_path_factory.mktemp("mnist"))


@pytest.fixture
def config(folder):
    recipe = Recipe(epochs=3, batch_size=8, learning_rate=1e-2, label_smoothing=0.1)
    return ImageConfig(str(folder), recipe=recipe, test_images=30)


@pytest.fixture
def trained(finished):
    return TrainedImageClassifier.load(finished / "model.ckpt")


def test_training_digits_are_centred_and_unchanged(folder):
    images, labels = load_digits(folder, "train")
    source = LabelledImages(centred(images), labels)
    batch = source.batch([3, 1], generator=torch.Generator())
    assert torch.equal(batch.labels, labels[[3, 1]])
    assert batch.inputs.shape == (2, 1, 40, 40)
    assert torch.equal((batch.inputs[:, 0] * 255).round().byte(), centred(images[[3, 1]]))
    assert source.batch([0]).inputs.amin() == 0  # the background


def test_holding_out_leaves_the_test_digits_unseen(config, folder, tmp_path):
    lonely = tmp_path / "lonely"
    lonely.mkdir()
    for file in folder.glob("train-*"):
        (lonely / file.name).write_bytes(file.read_bytes())
    held = replace(config, data=str(lonely), holdout=True)
    trained = AffNISTClassification().train(held, tmp_path / "run")
    evaluation = evaluate_image_classifier(trained, number=30)
    assert evaluation.split == "validation"
    assert evaluation.accuracy == trained.history[-1]["test_accuracy"]
    assert evaluate_image_classifier(trained, number=30, data=held.data) == evaluation
    assert evaluate_image_classifier(trained, "centred", 5, data=str(folder)).split == "test"
    refused("has no t10k-images", evaluate_image_classifier, trained, split="test")
    with pytest.raises(ValueError, match="has no t10k-images"):
        AffNISTClassification().train(replace(config, data=str(lonely)), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_the_first_digits_alone_may_be_trained_on(config, tmp_path):
    task, few = AffNISTClassification(), replace(config, digits=8)
    few = replace(few, recipe=replace(config.recipe, epochs=1))
    assert task.train(few, tmp_path / "few").history[0]["train_accuracy"] * 8 % 1 == 0
    for changes, message in (
        ({"digits": 41}, "has 40 training digits, not 41"),
        ({"test_images": 385}, "number must be 1 to 384, got 385"),
    ):
        refused(message, task.train, replace(config, **changes), tmp_path / "many")
    assert not (tmp_path / "many").exists()


class Reading(nn.Linear):
    """A function of images with parameters, which are unused."""

    def __init__(self, function):
        super().__init__(1, 1)
        self.function = function

    def forward(self, images):
        return self.function(images)


def test_the_change_of_logits_follows_its_definition_and_tells_an_invariant_model(folder):
    data = AffNIST(*load_digits(folder, "train"), "train")
    before = centred(data.images).float().flatten(1).sum(dim=1) / 255
    indices = torch.arange(len(data.images))
    after = data.render(indices, torch.zeros_like(indices)).float().flatten(1).sum(dim=1) / 255
    expected = (after - before).square().mean().sqrt() / before.std(correction=0)
    total = Reading(lambda images: images.flatten(1).sum(dim=1, keepdim=True))
    by_row = Reading(lambda images: images.flatten(0, 1).sum(dim=2))
    # sums of 1600 pixels in float32, of which differences are taken: 6e-8 * sqrt(1600) = 2.4e-6
    assert logit_change(total, data) == pytest.approx(expected.item(), rel=1e-5)
    refused("at least 2 digits", logit_change, total, data, 1)
    assert logit_change(Reading(lambda images: images.new_ones(len(images), 2)), data) == 0
    rows = logit_change(by_row, data)
    assert logit_change(total, data) < rows / 3
    assert rows > 1


def test_the_plain_network_sees_translations_alone():
    torch.manual_seed(0)
    model = PlainCNN.preset("cnn").eval()
    images = torch.zeros(1, 1, 40, 40)
    images[..., 14:24, 16:22] = torch.rand(10, 6)
    with torch.no_grad():
        still, moved, turned = model(
            torch.cat([images, images.roll((4, -8), (2, 3)), images.rot90(1, (2, 3))])
        )
    torch.testing.assert_close(still, moved, **tolerance(torch.float32, 1152, 10))
    assert (still - turned).abs().max() > 1e-3
    for widths in ((), (0,)):
        refused("must be positive", PlainCNNConfig, 10, widths)
    refused("preset must be 'cnn'", PlainCNN.preset, "default")


def test_training_learns_and_reports_the_change_of_logits(config, tmp_path):
    config = replace(config, recipe=replace(config.recipe, epochs=30))
    trained = AffNISTClassification().train(config, tmp_path / "run")
    assert {p.name for p in (tmp_path / "run").iterdir()} == {
        "config.json", "history.json", "model.ckpt",
    }  # fmt: skip
    last = trained.history[-1]
    assert last["test_accuracy"] > 0.8  # chance is a half
    assert last["loss"] < trained.history[0]["loss"]
    assert 0 < last["logit_change"] < 1
    assert "logit_change" not in trained.history[0]
    assert trained.config == config
    assert json.loads((tmp_path / "run" / "history.json").read_text()) == trained.history
    evaluation = evaluate_image_classifier(trained, number=30)
    assert evaluation.accuracy == last["test_accuracy"]
    assert evaluation.logit_change == last["logit_change"]


def test_the_plain_network_is_trained_and_read_back(config, tmp_path):
    config = replace(config, preset="cnn", recipe=replace(config.recipe, epochs=1))
    model = PlainCNN(PlainCNNConfig(10, widths=(4, 6), blocks=1))
    trained = AffNISTClassification().train(config, tmp_path, model=model)
    assert trained.model.config == model.config
    pixels = torch.arange(1600).reshape(1, 40, 40).to(torch.uint8)
    assert trained.logits(pixels).shape == (1, 10)
    assert trained.logits(pixels[:0]).shape == (0, 10)


def test_a_diverging_run_saves_nothing_within_its_epoch(config, tmp_path, monkeypatch):
    monkeypatch.setattr("equigeo.training.loop.fit.SAVE_SECONDS", 0.0)
    model = stand_in.AffineResNet(10)
    with torch.no_grad():
        model.head.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"epoch 1 is nan: training diverged; lower the"):
        AffNISTClassification().train(config, tmp_path / "run", model=model)
    assert not (tmp_path / "run" / "model.ckpt").exists()


def test_every_image_is_taken_where_there_are_few_and_no_more_can_be_asked_for(trained):
    assert evaluate_image_classifier(trained).images == 12 * 32
    assert evaluate_image_classifier(trained, "centred").images == 12
    with pytest.raises(ValueError, match="test must be one of affnist, homnist, centred"):
        evaluate_image_classifier(trained, "rotated")
    refused("number must be 1 to 12, got 13", evaluate_image_classifier, trained, "centred", 13)


TRAIN = ("train", "affnist")
SHORT = ("--epochs", "2", "--batch-size", "8", "--test-images", "24")


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """A finished run; tests must not write into it."""
    run = tmp_path_factory.mktemp("runs") / "run"
    with stand_in.installed():
        assert main([*TRAIN, "--data", str(folder), "--output", str(run), *SHORT]) == 0
    return run


def _run(*arguments):
    return main([str(argument) for argument in arguments])


def test_training_writes_the_configuration_it_was_given(folder, tmp_path, capsys):
    options = ("--preset", "paper", "--lr", "0.01", "--seed", "3", "--holdout", "--digits", "32")
    run = tmp_path / "run"
    assert _run(*TRAIN, "--data", folder, "--output", run, *SHORT, *options, "--threads", "1") == 0
    config = ImageConfig.from_dict(json.loads((run / "config.json").read_text()))
    assert (config.preset, config.recipe.learning_rate, config.seed) == ("paper", 0.01, 3)
    assert (config.holdout, config.digits, config.test_images) == (True, 32, 24)
    assert config.recipe.weight_decay == IMAGE_RECIPES["paper"].weight_decay
    out, err = capsys.readouterr()
    assert "held-out accuracy" in out
    assert "equivariance error" in out
    assert f"next: equigeo evaluate {run / 'model.ckpt'}" in out
    assert f"32 digits of {folder}, paper preset, 2 epochs" in err
    assert "epoch 2/2, loss" in err
    assert not TrainedImageClassifier.load(run / "model.ckpt").model.config.pooled


def test_a_time_limit_ends_the_session_with_a_hint(folder, finished, tmp_path, capsys):
    run = tmp_path / "run"
    arguments = (*TRAIN, "--data", folder, "--output", run, *SHORT)
    assert _run(*arguments, "--time-limit", "1e-9") == 0
    out, err = capsys.readouterr()
    assert "trained 0 epochs" in out
    assert f"continue with: equigeo train affnist --output {run} --resume" in out
    assert "epoch 1/2" not in err  # it is not complete
    assert _run("evaluate", run / "model.ckpt", "--images", "12") == 0
    assert "finished 0 of 2 epochs" in capsys.readouterr().err


def test_long_epochs_write_a_line_now_and_then(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("equigeo.training.loop.fit.LINE_SECONDS", 0.0)
    assert _run(*TRAIN, "--data", folder, "--output", tmp_path / "run", *SHORT) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(", loss")[0] for line in lines[1:]] == [
        *(f"epoch 1/2, step {k}/5" for k in range(1, 6)),
        "epoch 1/2",
        *(f"epoch 2/2, step {k}/5" for k in range(1, 6)),
        "epoch 2/2",
    ]


@pytest.mark.parametrize("test", ["affnist", "homnist", "centred"])
def test_evaluate_prints_numbers_that_agree_with_a_recomputation(
    trained, finished, folder, capsys, tmp_path, test
):
    results = tmp_path / "r.json"
    arguments = ("--test", test, "--images", "10", "--json", results)
    assert _run("evaluate", finished / "model.ckpt", *arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    saved = json.loads(results.read_text())
    images, labels = load_digits(folder, "test")
    kind = HomNIST if test == "homnist" else AffNIST
    chosen = torch.tensor([0, 1, 2, 3, 4, 6, 7, 8, 9, 10])  # spread over twelve
    drawn = kind(images, labels, "test").render(chosen, torch.zeros(10, dtype=torch.long))
    predicted = trained.logits(centred(images[chosen]) if test == "centred" else drawn).argmax(1)
    assert saved["accuracy"] == (predicted == labels[chosen]).double().mean().item()
    pairs = list(zip(labels[chosen].tolist(), predicted.tolist(), strict=True))
    assert saved["confusion"] == [[pairs.count((a, b)) for b in range(10)] for a in range(10)]
    assert saved["classes"] == list("0123456789")
    assert (saved["test"], saved["images"], saved["split"]) == (test, 10, "test")
    assert f"{test}, 10 images of the test digits" in out
    (line,) = [line for line in out.splitlines() if line.startswith("all ")]
    assert line.split()[1:3] == [str(sum(saved["confusion"][i][i] for i in range(10))), "10"]
    assert f"equivariance error {saved['logit_change']:.3f}" in out
    assert {p.name for p in finished.iterdir()} == {"config.json", "history.json", "model.ckpt"}


def test_evaluate_follows_other_digits(finished, folder, capsys):
    threads = str(torch.get_num_threads())
    arguments = ("--data", folder, "--split", "validation", "--images", "8", "--threads", threads)
    assert _run("evaluate", finished / "model.ckpt", *arguments) == 0
    assert "8 images of the validation digits" in capsys.readouterr().out


@pytest.fixture
def images(folder, tmp_path):
    """Test digits as files, one of them inked on paper, and the digits as the model takes them."""
    digits, _ = load_digits(folder, "test")
    scans = tmp_path / "scans"
    scans.mkdir()
    for number, digit in enumerate(digits[:3]):
        Image.fromarray((digit if number else 255 - digit).numpy()).save(scans / f"{number}.png")
    return scans, centred(digits[:3])


def test_images_in_a_folder_are_predicted(finished, images, capsys, tmp_path):
    scans, digits = images
    checkpoint = finished / "model.ckpt"
    assert _run("predict", checkpoint, scans, "--top", "10", "--json") == 0
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert [entry["file"] for entry in found] == [str(scans / f"{k}.png") for k in range(3)]
    trained = TrainedImageClassifier.load(checkpoint)
    for entry, digit in zip(found, digits, strict=True):
        shares = trained.logits(digit[None])[0].double().softmax(0).tolist()
        assert dict(entry["ranking"]) == dict(zip("0123456789", shares, strict=True))
    assert err == f"{scans / '0.png'}: inverted, for its border is bright\n"
    table = tmp_path / "r.csv"
    assert _run("predict", checkpoint, scans, "--results", table, "--quiet") == 0
    assert len(table.read_text().splitlines()) == 4
    assert capsys.readouterr() == ("", "")


def test_an_image_that_cannot_be_used_is_named_and_pillow_is_needed(
    finished, images, capsys, monkeypatch
):
    scans, _ = images
    (scans / "0.png").write_bytes(b"no image")
    assert _run("predict", finished / "model.ckpt", scans) == 2
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert err.startswith(f"equigeo: error: {scans / '0.png'}: is no image (")
    assert _run("predict", finished / "model.ckpt", scans / "1.png", "--view") == 2
    assert "an image has no faces" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert _run("predict", finished / "model.ckpt", images[0]) == 2
    expected = "equigeo: error: images need Pillow: pip install 'pillow>=10.1'\n"
    assert capsys.readouterr() == ("", expected)
