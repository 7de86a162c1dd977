import csv
import json
import logging
import sys

import pytest
import torch

from equigeo.cli import main

TRAIN = ("train", "mesh-classification")


def train(data, output, *arguments):
    assert main([*TRAIN, "--data", str(data), "--output", str(output), *arguments]) == 0


def table(folder):
    with (folder / "log.csv").open() as file:
        return list(csv.DictReader(file))


def test_table_has_the_history_and_weights_do_not_depend_on_it(data, run_folder, tmp_path):
    run = tmp_path / "run"
    train(data, run, "--epochs", "2", "--evaluate-every", "2", "--logger", "csv")
    history = json.loads((run / "history.json").read_text())
    assert [*table(run)[0]] == [*history[0]]
    for line, row in zip(history, table(run), strict=True):
        assert {name: value for name, value in row.items() if value} == {
            name: str(value) for name, value in line.items() if value is not None
        }
    assert [row["test_accuracy"] != "" for row in table(run)] == [False, True]
    state, expected = (
        torch.load(folder / "model.ckpt", weights_only=True)["state"]
        for folder in (run, run_folder)
    )
    assert all(torch.equal(state[name], value) for name, value in expected.items())


def test_the_table_of_a_resumed_run_is_whole_and_another_run_has_its_own(data, tmp_path):
    run = tmp_path / "run"
    train(data, run, "--epochs", "2", "--time-limit", "1e-9")  # one epoch, and no table of it
    assert not (run / "log.csv").exists()
    train(data, run, "--resume", "--logger", "csv")
    assert [row["epoch"] for row in table(run)] == ["1", "2"]
    train(data, run, "--epochs", "1", "--overwrite")
    assert not (run / "log.csv").exists()


def test_packages_that_a_run_lacks_are_named_before_any_work(data, tmp_path, refused, monkeypatch):
    arguments = (*TRAIN, "--data", data, "--output", tmp_path / "run", "--logger")
    assert "choose from" in refused(*arguments, "paper")
    for name in ("tensorboard", "wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
        expected = f"equigeo: error: the logger {name} needs {name}: pip install {name}\n"
        assert refused(*arguments, name) == expected
    monkeypatch.setitem(sys.modules, "lightning", None)
    message = refused(*arguments, "wandb")
    assert message.startswith("equigeo: error: training needs lightning")
    assert "the logger wandb needs wandb" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of tensorboard and what it imports
def test_events_have_the_epochs_as_steps(data, tmp_path):
    pytest.importorskip("tensorboard", reason="needs pip install tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = tmp_path / "run"
    train(data, run, "--epochs", "2", "--logger", "tensorboard")
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    losses = [(event.step, event.value) for event in events.Scalars("loss")]
    history = json.loads((run / "history.json").read_text())
    assert losses == [(line["epoch"], pytest.approx(line["loss"])) for line in history]
    train(data, run, "--epochs", "1", "--overwrite")
    assert not [*(run / "tensorboard").glob("events*")]
