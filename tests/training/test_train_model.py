"""Runs that another version of a model began, or that were killed."""

import json
from functools import partial

import pytest

from equigeo.datasets.replace_file import replace_file
from equigeo.training import Checkpoint, CheckpointError, log_history
from equigeo.training.loop.history_logger import HistoryLogger
from tests.tasks.mesh_run import train_meshes


def _rewrite(file, **model):
    """Describe the model of a checkpoint with fewer words, as older versions did."""
    saved = Checkpoint.load(file)
    for name in model.pop("without", ()):
        del saved.config["model"][name]
    saved.config["model"].update(model)
    saved.save(file)


def test_a_run_whose_model_was_described_in_other_words_is_resumed(
    config, dataset, small_model, tmp_path
):
    train_meshes(config, dataset, tmp_path / "run", model=small_model())
    _rewrite(tmp_path / "run" / "model.ckpt", without=["coupling"])  # has its default
    again = train_meshes(config, dataset, tmp_path / "run", model=small_model(), resume=True)
    assert again.is_finished
    _rewrite(tmp_path / "run" / "model.ckpt", channels=[4, 4])
    with pytest.raises(CheckpointError, match="another 'model' configuration"):
        train_meshes(config, dataset, tmp_path / "run", model=small_model(), resume=True)
    _rewrite(tmp_path / "run" / "model.ckpt", channels="wide")
    with pytest.raises(CheckpointError, match="another 'model' configuration"):
        train_meshes(config, dataset, tmp_path / "run", model=small_model(), resume=True)


def test_a_run_of_an_earlier_version_is_resumed(config, dataset, small_model, tmp_path):
    train_meshes(config, dataset, tmp_path / "run", model=small_model())
    file, saved = tmp_path / "run" / "config.json", config.to_dict()
    checkpoint = Checkpoint.load(tmp_path / "run" / "model.ckpt")
    for name in ("stretch", "resolutions", "update_bn"):
        del saved["recipe"][name], checkpoint.config["train"]["recipe"][name]
    for line in checkpoint.training["history"]:
        del line["threads"]
    file.write_text(json.dumps(saved))
    checkpoint.save(tmp_path / "run" / "model.ckpt")
    again = train_meshes(config, dataset, tmp_path / "run", model=small_model(), resume=True)
    assert again.is_finished
    assert again.config == config
    checkpoint.config["train"]["recipe"]["jitter"] = 0.5
    checkpoint.save(tmp_path / "run" / "model.ckpt")
    with pytest.raises(CheckpointError, match="another 'train' configuration"):
        train_meshes(config, dataset, tmp_path / "run", model=small_model(), resume=True)


class Told(HistoryLogger):
    """Keep the epochs that are passed on."""

    def __init__(self):
        self.epochs = []

    def on_recorded(self, record):
        self.epochs.append(record.history[-1]["epoch"])

    def close(self):
        self.epochs.append("closed")


@pytest.mark.parametrize("lost", [3, 2], ids=["in the last epoch", "before it"])
def test_a_run_killed_before_its_history_was_written_gets_it_when_resumed(
    lost, config, dataset, small_model, tmp_path, monkeypatch
):
    run, told = tmp_path / "run", Told()
    train = partial(train_meshes, config, dataset, run)

    def replace_or_die(path, content):
        if path.name == "history.json" and len(json.loads(content)) == lost:
            raise KeyboardInterrupt
        replace_file(path, content)

    with monkeypatch.context() as patch:
        patch.setattr("equigeo.training.files.run_record.replace_file", replace_or_die)
        with pytest.raises(KeyboardInterrupt):
            train(model=small_model(), callbacks=[told, *log_history("csv", run)])
    assert told.epochs == list(range(1, lost))
    trained = train(
        model=small_model(), resume=True, callbacks=[told, *log_history("csv", run)]
    )  # fmt: skip
    assert trained.is_finished
    assert json.loads((run / "history.json").read_text()) == trained.history
    assert len((run / "log.csv").read_text().splitlines()) == 1 + 3
    assert told.epochs == [1, 2, 3, *(["closed"] if lost == 3 else [])]
    (run / "log.csv").unlink()  # a session may also have been killed just before this
    train(model=small_model(), resume=True, callbacks=[told, *log_history("csv", run)])
    assert len((run / "log.csv").read_text().splitlines()) == 1 + 3
    assert told.epochs[3:] == (["closed"] if lost == 3 else [])  # told nothing twice
