"""``equigeo train affnist`` and the evaluation of its checkpoints."""

import json
import sys

import pytest
import torch
from PIL import Image

from equigeo.cli import main
from equigeo.datasets import centred, load_digits
from equigeo.tasks.affnist import IMAGE_RECIPES, ImageConfig, TrainedImageClassifier
from equigeo.tasks.affnist.trained import classify_image
from tests.cli.finished_run import checkpoint, data, run_folder
from tests.tasks import stand_in

__all__ = ["checkpoint", "data", "run_folder"]  # fixtures

TRAIN = ("train", "affnist")
SHORT = ("--epochs", "2", "--batch-size", "8", "--test-images", "24")


@pytest.fixture(autouse=True)
def _model():
    with stand_in.installed():
        yield


@pytest.fixture(scope="module")
def mnist(tmp_path_factory):
    return stand_in.write_tiny_mnist(tmp_path_factory.mktemp("mnist"))


@pytest.fixture(scope="module")
def finished(mnist, tmp_path_factory):
    """A finished run; tests must not write into it."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    with stand_in.installed():
        assert main([*TRAIN, "--data", str(mnist), "--output", str(folder), *SHORT]) == 0
    return folder


def _run(*arguments):
    return main([str(argument) for argument in arguments])


def test_training_writes_the_configuration_it_was_given(mnist, tmp_path, capsys):
    options = ("--preset", "paper", "--lr", "0.01", "--seed", "3", "--holdout", "--digits", "32")
    run = tmp_path / "run"
    assert _run(*TRAIN, "--data", mnist, "--output", run, *SHORT, *options, "--threads", "1") == 0
    config = ImageConfig.from_dict(json.loads((run / "config.json").read_text()))
    assert (config.preset, config.recipe.learning_rate, config.seed) == ("paper", 0.01, 3)
    assert (config.holdout, config.digits, config.test_images) == (True, 32, 24)
    assert config.recipe.weight_decay == IMAGE_RECIPES["paper"].weight_decay
    out, err = capsys.readouterr()
    assert "held-out accuracy" in out
    assert "equivariance error" in out
    assert f"next: equigeo evaluate {run / 'model.ckpt'}" in out
    assert f"32 digits of {mnist}, paper preset, 2 epochs" in err
    assert "epoch 2/2, loss" in err
    assert not TrainedImageClassifier.load(run / "model.ckpt").model.config.pooled


def test_resuming_keeps_the_options_of_the_run(finished, capsys):
    before = (finished / "model.ckpt").read_bytes()
    assert _run(*TRAIN, "--output", finished, "--resume") == 0
    assert (finished / "model.ckpt").read_bytes() == before
    assert "trained 2 epochs" in capsys.readouterr().out
    assert _run(*TRAIN, "--output", finished, "--resume", "--holdout") == 2
    assert "holdout is False, asked True" in capsys.readouterr().err


def test_a_time_limit_ends_the_session_with_a_hint(mnist, finished, tmp_path, capsys):
    run = tmp_path / "run"
    arguments = (*TRAIN, "--data", mnist, "--output", run, *SHORT)
    assert _run(*arguments, "--time-limit", "1e-9") == 0
    out, err = capsys.readouterr()
    assert "trained 0 epochs" in out
    assert f"continue with: equigeo train affnist --output {run} --resume" in out
    assert "epoch 1/2" not in err  # it is not complete
    assert _run("evaluate", run / "model.ckpt", "--images", "12") == 0
    assert "finished 0 of 2 epochs" in capsys.readouterr().err
    assert _run(*TRAIN, "--output", run, "--resume") == 0
    resumed, whole = (
        TrainedImageClassifier.load(path / "model.ckpt").model.state_dict()
        for path in (run, finished)
    )
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


def test_long_epochs_write_a_line_now_and_then(mnist, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("equigeo.training.loop.training_progress.LINE_SECONDS", 0.0)
    assert _run(*TRAIN, "--data", mnist, "--output", tmp_path / "run", *SHORT) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(", loss")[0] for line in lines[1:]] == [
        *(f"epoch 1/2, step {k}/5" for k in range(1, 6)),
        "epoch 1/2",
        *(f"epoch 2/2, step {k}/5" for k in range(1, 6)),
        "epoch 2/2",
    ]


@pytest.mark.parametrize("test", ["affnist", "homnist", "centred"])
def test_evaluate_prints_accuracy_and_change_of_logits(finished, capsys, tmp_path, test):
    results = tmp_path / "r.json"
    arguments = ("--test", test, "--images", "10", "--json", results)
    assert _run("evaluate", finished / "model.ckpt", *arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    saved = json.loads(results.read_text())
    assert (saved["test"], saved["images"], saved["split"]) == (test, 10, "test")
    assert f"{test}, 10 images of the test digits" in out
    (line,) = [line for line in out.splitlines() if line.startswith("all ")]
    assert line.split()[1:3] == [str(sum(saved["confusion"][i][i] for i in range(10))), "10"]
    assert f"equivariance error {saved['logit_change']:.3f}" in out
    assert {p.name for p in finished.iterdir()} == {"config.json", "history.json", "model.ckpt"}


def test_evaluate_follows_other_digits(finished, mnist, capsys):
    threads = str(torch.get_num_threads())
    arguments = ("--data", mnist, "--split", "validation", "--images", "8", "--threads", threads)
    assert _run("evaluate", finished / "model.ckpt", *arguments) == 0
    assert "8 images of the validation digits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (TRAIN, "--data is missing; give the folder"),
        ((*TRAIN, "--data", "none"), "no such folder"),
        ((*TRAIN, "--preset", "best"), "best"),
        ((*TRAIN, "--jitter", "1"), "--jitter"),
        ((*TRAIN, "--data", "x", "--time-limit", "0"), "positive number of minutes"),
        ((*TRAIN, "--data", "x", "--time-limit", "nan"), "positive number of minutes"),
        ((*TRAIN, "--digits", "0"), "positive integer"),
    ],
)
def test_wrong_options_are_named(arguments, part, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert _run(*arguments) == 2
    assert part in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--split", "16"), "--split must be validation, test"),
        (("--seed", "1"), "--seed is for checkpoints of the task 'mesh-classification'"),
        (("--images", "385"), "number must be 1 to 384, got 385"),
        (("--test", "rotated"), "rotated"),
        (("--data", "none"), "none: no such folder"),
        (("--json", "none/r.json"), "r.json: cannot be written"),
    ],
)
def test_options_that_do_not_fit_the_checkpoint_are_refused(finished, capsys, options, part):
    assert _run("evaluate", finished / "model.ckpt", *options) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert part in err
    assert "Traceback" not in err


def test_checkpoints_and_options_of_meshes_are_told_apart(finished, checkpoint, tmp_path, capsys):
    assert _run("evaluate", checkpoint, "--test", "homnist") == 2
    assert "--test is for checkpoints of the task 'affnist'" in capsys.readouterr().err
    assert _run("evaluate", checkpoint, "--split", "validation") == 2
    assert "--split must be folder, 16, 10" in capsys.readouterr().err
    assert _run("predict", finished / "model.ckpt", tmp_path / "a.obj") == 2
    assert "has the extension '.obj'; expected .bmp, " in capsys.readouterr().err
    assert _run("train", "mesh-classification", "--output", finished, "--resume") == 2
    assert "not a configuration" in capsys.readouterr().err


@pytest.fixture
def images(mnist, tmp_path):
    """Test digits as files, one of them inked on paper, and the digits as the model takes them."""
    digits, _ = load_digits(mnist, "test")
    folder = tmp_path / "scans"
    folder.mkdir()
    for number, digit in enumerate(digits[:3]):
        Image.fromarray((digit if number else 255 - digit).numpy()).save(folder / f"{number}.png")
    return folder, centred(digits[:3])


def test_images_in_a_folder_are_predicted(finished, images, capsys, tmp_path):
    folder, digits = images
    checkpoint = finished / "model.ckpt"
    assert _run("predict", checkpoint, folder, "--top", "10", "--json") == 0
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert [entry["file"] for entry in found] == [str(folder / f"{k}.png") for k in range(3)]
    trained = TrainedImageClassifier.load(checkpoint)
    for entry, digit in zip(found, digits, strict=True):
        shares = trained.logits(digit[None])[0].double().softmax(0).tolist()
        assert dict(entry["ranking"]) == dict(zip("0123456789", shares, strict=True))
    assert err == f"{folder / '0.png'}: inverted, for its border is bright\n"
    table = tmp_path / "r.csv"
    assert _run("predict", checkpoint, folder, "--results", table, "--quiet") == 0
    assert len(table.read_text().splitlines()) == 4
    assert capsys.readouterr() == ("", "")


def test_an_image_that_cannot_be_used_is_named(finished, images, capsys):
    folder, _ = images
    (folder / "0.png").write_bytes(b"no image")
    assert _run("predict", finished / "model.ckpt", folder) == 2
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert err.startswith(f"equigeo: error: {folder / '0.png'}: is no image (")
    assert _run("predict", finished / "model.ckpt", folder / "1.png", "--view") == 2
    assert "an image has no faces" in capsys.readouterr().err


def test_without_pillow_the_error_says_what_to_install(finished, images, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert _run("predict", finished / "model.ckpt", images[0]) == 2
    expected = "equigeo: error: images need Pillow: pip install 'pillow>=10.1'\n"
    assert capsys.readouterr() == ("", expected)


@pytest.mark.parametrize("top", [0, -1])
def test_a_number_of_classes_is_positive(top):
    with pytest.raises(ValueError, match="top must be at least 1"):
        classify_image(None, None, top)
