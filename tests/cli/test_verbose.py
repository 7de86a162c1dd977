import logging

import pytest

import equigeo
from equigeo.cli import main
from equigeo.cli.verbose import verbose
from equigeo.training import Checkpoint


def test_versions_and_cost_are_said_beside_the_results(checkpoint, data, capsys):
    words = ["predict", str(checkpoint), str(data / "ball" / "test" / "T5.obj")]
    assert main(words) == 0
    plain = capsys.readouterr()
    assert main([*words, "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert out == plain.out
    first, *_, last = err.splitlines()
    assert first.startswith(f"equigeo: {equigeo.__version__}, PyTorch ")
    assert " s with " in last


def test_what_the_library_logs_is_shown_on_one_line_and_only_then(capsys):
    log = logging.getLogger("equigeo.part")
    with verbose(True):
        log.debug("a\x1b[31m\nb")
    handlers, level = logging.getLogger("equigeo").handlers, logging.getLogger("equigeo").level
    assert r"equigeo: DEBUG: a\x1b[31m\nb" in capsys.readouterr().err
    with verbose(False):
        log.debug("silent")
    assert capsys.readouterr().err == ""
    assert logging.getLogger("equigeo").handlers == handlers
    assert logging.getLogger("equigeo").level == level
    with pytest.raises(ValueError, match="x"), verbose(True):
        raise ValueError("x")
    assert " s with " in capsys.readouterr().err


TRAIN = ("train", "mesh-classification")


@pytest.fixture
def unfinished(checkpoint):
    """A run that has done one of its two epochs."""
    content = Checkpoint.load(checkpoint)
    content.training["history"] = content.training["history"][:1]
    content.save(checkpoint)
    return checkpoint


def run(capsys, *arguments):
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr()


def test_training_shows_its_results_alone(data, tmp_path, capsys):
    arguments = (*TRAIN, "--data", data, "--epochs", "1")
    loud = run(capsys, *arguments, "--output", tmp_path / "loud")
    assert "epoch 1/1" in loud.err
    quiet = run(capsys, *arguments, "--output", tmp_path / "quiet", "--quiet")
    assert quiet.err == ""
    assert quiet.out.startswith("trained 1 epochs")


@pytest.mark.full
def test_evaluation_makes_no_remark_on_an_unfinished_run(unfinished, capsys):
    assert "note: this run has finished 1 of 2 epochs" in run(capsys, "evaluate", unfinished).err
    quiet = run(capsys, "evaluate", unfinished, "--quiet")
    assert quiet.err == ""
    assert "accuracy" in quiet.out


def test_prediction_makes_no_remark_on_repairs(checkpoint, tmp_path, capsys):
    file = tmp_path / "open.obj"
    file.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 2 3 5\n")
    assert run(capsys, "predict", checkpoint, file).err != ""
    quiet = run(capsys, "predict", checkpoint, file, "--quiet")
    assert quiet.err == ""
    assert "open.obj: " in quiet.out


def test_errors_are_still_said_and_quiet_is_not_verbose(checkpoint, tmp_path, refused):
    assert "no.obj" in refused("predict", checkpoint, tmp_path / "no.obj", "--quiet")
    assert "not allowed with" in refused("evaluate", checkpoint, "--quiet", "--verbose")
