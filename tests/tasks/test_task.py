"""What every task promises to training and to the command line."""

from dataclasses import fields, replace

import pytest

from equigeo.tasks import TASKS, MeshClassification, find_task
from equigeo.tasks.mesh_classification import MESH_RECIPES
from equigeo.training import Checkpoint, CheckpointError, OutputFolderError, Recipe
from tests.tasks.mesh_run import config
from tests.tasks.tiny_checkpoints import tiny_checkpoints
from tests.tasks.tiny_data import write_tiny_folder

__all__ = ["config"]


def test_the_names_in_checkpoints_stay():
    names = "mesh-classification mesh-segmentation affnist pointcloud tsp potential"
    assert [task.name for task in TASKS] == names.split()


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_options_of_training_are_fields_of_the_configuration(task):
    names = {field.name for field in fields(task.config_type)}
    assert {argument.name for argument in task.train_arguments} <= names
    assert set(task.config_type.unused) <= {field.name for field in fields(Recipe)}
    assert task.config_type.recipes


def test_the_task_is_found_by_the_checkpoint(tmp_path):
    for task in TASKS:
        Checkpoint(task.name, {}, {}, {}).save(tmp_path / "model.ckpt")
        assert find_task(tmp_path / "model.ckpt", TASKS) is task
    Checkpoint("origami", {}, {}, {}).save(tmp_path / "model.ckpt")
    with pytest.raises(CheckpointError, match="task 'origami', expected one of 'mesh-class"):
        find_task(tmp_path / "model.ckpt", TASKS)
    Checkpoint("origami" * 10**5, {}, {}, {}).save(tmp_path / "model.ckpt")
    with pytest.raises(CheckpointError) as caught:
        find_task(tmp_path / "model.ckpt", TASKS)
    assert len(str(caught.value).replace(str(tmp_path), "")) < 400


def test_checkpoint_of_another_task_or_version_is_refused(tmp_path):
    path = tmp_path / "model.ckpt"
    for checkpoint in tiny_checkpoints().values():
        own = next(task for task in TASKS if task.name == checkpoint.task)
        other = next(task for task in TASKS if task.name != checkpoint.task)
        checkpoint.save(path)
        with pytest.raises(CheckpointError, match=f"is for the task '{own.name}'"):
            other.trained_type.load(path)
        changes = {"classes": ["a"], "train": {}, "model": checkpoint.config["model"] | {"x": 1}}
        if own.name == "pointcloud":
            changes["train"] = checkpoint.config["train"] | {"model": "other"}
        for key, value in changes.items():
            replace(checkpoint, config=checkpoint.config | {key: value}).save(path)
            misfit = f"does not fit this version's {own.trained_type.what}"
            with pytest.raises(CheckpointError, match=misfit):
                own.trained_type.load(path)


def test_given_options_change_the_preset_and_a_resumed_configuration(tmp_path):
    task, output = MeshClassification(), tmp_path / "run"
    options = {"data": "builtin", "preset": "paper", "seed": 4, "epochs": 3, "jitter": None}
    config = task.configure(output, options | {"unrelated": 1})
    assert config.recipe == replace(MESH_RECIPES["paper"], epochs=3)
    assert (config.data, config.preset, config.seed) == ("builtin", "paper", 4)
    task.folder(output).begin(config)
    assert task.configure(output, {}, resume=True) == config
    with pytest.raises(OutputFolderError, match="seed is 4, asked 5"):
        task.configure(output, {"seed": 5}, resume=True)
    with pytest.raises(OutputFolderError, match="already holds"):
        task.configure(output, options)
    assert task.configure(output, options, overwrite=True) == config


def test_data_are_loaded_where_none_are_given(config, tmp_path):
    data = write_tiny_folder(tmp_path / "data")
    short = replace(config, data=str(data), recipe=replace(config.recipe, epochs=1))
    trained = MeshClassification().train(short, tmp_path / "run")
    assert trained.classes == ("ball", "capsule", "torus")
    assert trained.is_finished
    (line,) = MeshClassification().summarize(trained)
    assert line.startswith("test accuracy ")
