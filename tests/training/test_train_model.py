"""Runs that another version of a model began."""

from __future__ import annotations

import json

import pytest

from equigeo.training import Checkpoint, CheckpointError
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
