from dataclasses import fields, replace

import pytest

from equigeo.tasks import TASKS, MeshClassification, TravellingSalesman, find_task
from equigeo.tasks.mesh_classification import MESH_RECIPES
from equigeo.tasks.tsp import TourConfig
from equigeo.training import Checkpoint, CheckpointError, OutputFolderError, Recipe
from tests.cli.finished_run import refused
from tests.tasks.tiny_checkpoints import tiny_checkpoints
from tests.tasks.tiny_data import config, write_tiny_folder

__all__ = ["config", "refused"]  # fixtures


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_options_of_training_are_fields_of_the_configuration(task):
    names = {field.name for owner in (task.config_type, Recipe) for field in fields(owner)}
    assert {argument.name for argument in task.train_arguments} <= names
    assert set(task.config_type.unused) <= {field.name for field in fields(Recipe)}
    assert task.config_type.recipes


def test_the_task_is_found_by_its_name_in_the_checkpoint(tmp_path):
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
    meshes = "mesh-classification mesh-segmentation mesh-regression mesh-dynamics"
    names = f"{meshes} affnist pointcloud tsp potential"
    assert [task.name for task in TASKS] == names.split()


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


@pytest.mark.parametrize(
    ("task", "options", "part"),
    [
        ("affnist", (), "--data is missing; give the folder"),
        ("affnist", ("--data", "none"), "no such folder"),
        ("affnist", ("--preset", "best"), "best"),
        ("affnist", ("--jitter", "1"), "--jitter"),
        ("affnist", ("--data", "x", "--time-limit", "0"), "positive number of minutes"),
        ("affnist", ("--digits", "0"), "positive integer"),
        ("pointcloud", ("--data", "none"), "no such file"),
        ("pointcloud", ("--data", ".", "--preset", "dgcnn"), "preset must be one of default, SO"),
        ("pointcloud", ("--data", ".", "--model", "mds", "--preset", "SO"), "for the model 'mds'"),
        ("potential", (), "--data is missing"),
    ],
)
def test_wrong_options_of_training_are_named(task, options, part, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert part in refused("train", task, *options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "options", "part"),
    [
        ("mesh", ("--test", "homnist"), "--test is for checkpoints of the task 'affnist'"),
        ("mesh", ("--split", "validation"), "split must be folder, 16, 10"),
        ("affnist cnn", ("--split", "16"), "--split must be validation, test"),
        ("affnist cnn", ("--seed", "1"), "--seed is for checkpoints of the task 'mesh-class"),
        ("affnist cnn", ("--test", "rotated"), "rotated"),
        ("affnist cnn", ("--data", "none"), "none: no such folder"),
        ("pointcloud mds", ("--split", "test"), "split must be folder or positive fractions"),
        ("pointcloud mds", ("--images", "3"), "--images is for checkpoints"),
        ("pointcloud mds", ("--data", "none"), "no such file"),
        ("tsp", ("--split", "test"), "--split is for checkpoints of the task"),
        (
            "tsp",
            ("--merge", "0"),
            "--merge is for checkpoints of the task 'mesh-classification' or",
        ),
        ("tsp", ("--data", "none"), "no such file or folder"),
        ("tsp", ("--instances", "0"), "positive integer"),
        ("potential", ("--data", "none"), "no such file"),
    ],
)
def test_options_that_do_not_fit_the_checkpoint_are_named(
    kind, options, part, refused, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    tiny_checkpoints()[kind].save(tmp_path / "model.ckpt")
    assert part in refused("evaluate", "model.ckpt", *options)


@pytest.mark.parametrize("kind", ["mesh", "affnist cnn", "pointcloud mds"])
def test_files_of_another_kind_are_refused_by_their_extension(kind, refused, tmp_path):
    tiny_checkpoints()[kind].save(tmp_path / "model.ckpt")
    message = refused("predict", tmp_path / "model.ckpt", "a.x")
    assert "has the extension '.x'; expected" in message
    if kind != "mesh":
        message = refused("predict", tmp_path / "model.ckpt", "a.x", "--merge", "0")
        assert "--merge is for checkpoints of the task 'mesh-classification' or" in message


def test_a_run_of_another_task_is_not_resumed(refused, tmp_path):
    TravellingSalesman().folder(tmp_path).begin(TourConfig(cities=6))
    mesh = ("train", "mesh-classification", "--output", tmp_path)
    assert "not a configuration" in refused(*mesh, "--resume")


@pytest.mark.parametrize("task", [x for x in TASKS if x.files and x.name != "potential"])
@pytest.mark.parametrize("top", [0, -1])
def test_number_of_classes_is_positive(task, top):
    with pytest.raises(ValueError, match="top must be at least 1"):
        task.predict(None, None, top)
