"""Images: data, models, training and evaluation."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from equigeo.datasets import AffNIST, centred, load_digits
from equigeo.tasks.affnist import (
    AffNISTClassification,
    ImageConfig,
    evaluate_image_classifier,
    logit_change,
)
from equigeo.tasks.affnist.data import LabelledImages
from equigeo.tasks.affnist.models import PlainCNN, PlainCNNConfig
from equigeo.testing import tolerance
from equigeo.training import Recipe, time_limit
from tests.tasks import stand_in


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


@pytest.fixture(scope="module")
def trained(folder, tmp_path_factory):
    recipe = Recipe(epochs=2, batch_size=8, learning_rate=1e-2)
    config = ImageConfig(str(folder), recipe=recipe, test_images=12)
    with stand_in.installed():
        return AffNISTClassification().train(config, tmp_path_factory.mktemp("run") / "run")


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
    with pytest.raises(ValueError, match="has no t10k-images"):
        evaluate_image_classifier(trained, split="test")
    with pytest.raises(ValueError, match="has no t10k-images"):
        AffNISTClassification().train(replace(config, data=str(lonely)), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_the_first_digits_alone_may_be_trained_on(config, tmp_path):
    few = replace(config, digits=8, recipe=replace(config.recipe, epochs=1))
    assert (
        AffNISTClassification().train(few, tmp_path / "few").history[0]["train_accuracy"] * 8 % 1
        == 0
    )
    with pytest.raises(ValueError, match="has 40 training digits, not 41"):
        AffNISTClassification().train(replace(config, digits=41), tmp_path / "many")
    with pytest.raises(ValueError, match="number must be 1 to 384, got 385"):
        AffNISTClassification().train(replace(config, test_images=385), tmp_path / "many")
    assert not (tmp_path / "many").exists()


class _Sum(nn.Module):
    """Total ink, or ink by row: one is nearly invariant, the other not at all."""

    def __init__(self, by_row, by_place=False):
        super().__init__()
        self.by_row = by_row
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, images):
        rows = images.flatten(0, 1).sum(dim=2)
        return rows if self.by_row else rows.sum(dim=1, keepdim=True)


def test_the_change_of_logits_tells_an_invariant_model_from_others(folder):
    data = AffNIST(*load_digits(folder, "train"), "train")

    class Constant(nn.Linear):
        def forward(self, images):
            return images.new_ones(len(images), 2)

    assert logit_change(Constant(1, 1), data) == 0
    ink, rows = logit_change(_Sum(False), data), logit_change(_Sum(True), data)
    assert ink < rows / 3
    assert rows > 1


def test_the_change_of_logits_follows_its_definition(folder):
    data = AffNIST(*load_digits(folder, "train"), "train")
    before = centred(data.images).float().flatten(1).sum(dim=1) / 255
    indices = torch.arange(len(data.images))
    after = data.render(indices, torch.zeros_like(indices)).float().flatten(1).sum(dim=1) / 255
    expected = (after - before).square().mean().sqrt() / before.std(correction=0)
    # sums of 1600 pixels in float32, of which differences are taken: 6e-8 * sqrt(1600) = 2.4e-6
    assert logit_change(_Sum(False), data) == pytest.approx(expected.item(), rel=1e-5)
    with pytest.raises(ValueError, match="at least 2 digits"):
        logit_change(_Sum(False), data, 1)


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


@pytest.mark.parametrize("widths", [(), (0,)])
def test_a_plain_network_of_nothing_is_refused(widths):
    with pytest.raises(ValueError, match="must be positive"):
        PlainCNN(PlainCNNConfig(10, widths))
    with pytest.raises(ValueError, match="preset must be 'cnn'"):
        PlainCNN.preset("default")


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


def test_a_session_that_ends_in_the_first_epoch_leaves_a_usable_checkpoint(config, tmp_path):
    trained = AffNISTClassification().train(config, tmp_path, callbacks=time_limit(1e-9))
    assert trained.history == []
    assert 0 <= evaluate_image_classifier(trained, number=12).accuracy <= 1


def test_a_diverging_run_saves_nothing_within_its_epoch(config, tmp_path, monkeypatch):
    monkeypatch.setattr("equigeo.training.loop.epoch_recorder.SAVE_SECONDS", 0.0)
    model = stand_in.AffineResNet(10)
    with torch.no_grad():
        model.head.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"epoch 1 is nan: training diverged; lower the"):
        AffNISTClassification().train(config, tmp_path / "run", model=model)
    assert not (tmp_path / "run" / "model.ckpt").exists()


@pytest.mark.parametrize("test", ["affnist", "homnist", "centred"])
def test_numbers_agree_with_a_recomputation(trained, folder, test):
    from equigeo.datasets import HomNIST

    result = evaluate_image_classifier(trained, test, 10)
    images, labels = load_digits(folder, "test")
    kind = HomNIST if test == "homnist" else AffNIST
    chosen = torch.tensor([0, 1, 2, 3, 4, 6, 7, 8, 9, 10])  # spread over twelve
    drawn = kind(images, labels, "test").render(chosen, torch.zeros(10, dtype=torch.long))
    seen = centred(images[chosen]) if test == "centred" else drawn
    predicted = trained.logits(seen).argmax(dim=1)
    assert result.accuracy == (predicted == labels[chosen]).double().mean().item()
    pairs = list(zip(labels[chosen].tolist(), predicted.tolist(), strict=True))
    assert result.confusion == [[pairs.count((a, b)) for b in range(10)] for a in range(10)]
    assert (result.images, result.test, result.split) == (10, test, "test")
    assert json.loads(json.dumps(result.to_dict()))["classes"] == list("0123456789")


def test_every_image_is_taken_where_there_are_few(trained):
    assert evaluate_image_classifier(trained).images == 12 * 32
    assert evaluate_image_classifier(trained, "centred").images == 12


def test_unknown_tests_and_too_many_images_are_refused(trained):
    with pytest.raises(ValueError, match="test must be one of affnist, homnist, centred"):
        evaluate_image_classifier(trained, "rotated")
    with pytest.raises(ValueError, match="number must be 1 to 12, got 13"):
        evaluate_image_classifier(trained, "centred", 13)
