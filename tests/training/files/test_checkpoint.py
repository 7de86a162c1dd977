import os
import pickle
import zipfile
from contextlib import suppress
from dataclasses import replace

import pytest
import torch

from equigeo.tasks.mesh_classification import MeshConfig, TrainedMeshClassifier
from equigeo.training import Checkpoint, CheckpointError
from equigeo.training.novelty import Novelty


@pytest.fixture
def checkpoint(small_model):
    config = {
        "model": small_model().config.to_dict(),
        "classes": ["a", "b", "c"],
        "train": MeshConfig("builtin").to_dict(),
        "version": "0",
    }
    return Checkpoint(
        TrainedMeshClassifier.task, config, small_model().state_dict(), {"history": []}
    )


@pytest.fixture
def file(checkpoint, tmp_path):
    checkpoint.save(tmp_path / "model.ckpt")
    return tmp_path / "model.ckpt"


def _rewrite(file, **changes):
    content = torch.load(file, weights_only=True) | changes
    torch.save(content, file)


def test_a_saved_checkpoint_loads_to_the_same_model(file, checkpoint):
    loaded = TrainedMeshClassifier.load(file)
    assert loaded.classes == ("a", "b", "c")
    assert loaded.config == MeshConfig("builtin")
    state = loaded.model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in checkpoint.state.items())


def test_a_path_may_be_a_text(file, checkpoint, tmp_path):
    assert TrainedMeshClassifier.load(str(file)).classes == ("a", "b", "c")
    copy = str(tmp_path / "copy.ckpt")
    checkpoint.save(copy)
    assert Checkpoint.load(copy, checkpoint.task).config == checkpoint.config
    with pytest.raises(CheckpointError, match="no such file"):
        TrainedMeshClassifier.load("none.ckpt")


def test_the_format_is_the_promised_one(file):
    content = torch.load(file, weights_only=True)
    assert set(content) == {"format", "task", "config", "state", "training"}
    assert content["format"] == "equigeo/1"


def test_what_tells_novel_samples_is_kept_and_may_be_missing(file, checkpoint):
    assert TrainedMeshClassifier.load(file).novelty is None  # as of a file of an earlier version
    width = TrainedMeshClassifier.load(file).model.embedding_width
    draw = torch.Generator().manual_seed(0)
    novelty = Novelty.fit(torch.randn(60, width, generator=draw), torch.arange(60) % 3)
    replace(checkpoint, novelty=novelty.state_dict()).save(file)
    content = torch.load(file, weights_only=True)
    assert set(content) == {"format", "task", "config", "state", "training", "novelty"}
    assert content["format"] == "equigeo/1"
    found = TrainedMeshClassifier.load(file).novelty
    assert found.limit == pytest.approx(novelty.limit)
    assert found.centers.shape == (3, width)


@pytest.mark.parametrize("novelty", [3, [], {"mean": 0}, {"centers": torch.zeros(3, 4)}])
def test_a_damaged_novelty_is_refused(file, novelty):
    _rewrite(file, novelty=novelty)
    with pytest.raises(CheckpointError, match=r"model\.ckpt"):
        TrainedMeshClassifier.load(file)


class _Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def _pickle_bomb(file, target):
    file.write_bytes(pickle.dumps(_Bomb(target)))


def _zip_bomb_of_pickle(file, target):
    torch.save({"format": "equigeo/1", "state": _Bomb(target)}, file)


@pytest.mark.parametrize("plant", [_pickle_bomb, _zip_bomb_of_pickle])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path, plant):
    file, target = tmp_path / "model.ckpt", tmp_path / "exploded"
    plant(file, target)
    with pytest.raises(CheckpointError, match=r"model\.ckpt.*never loaded"):
        TrainedMeshClassifier.load(file)
    assert not target.exists()
    with suppress(RuntimeError):
        torch.load(file, weights_only=False)  # the bomb is a real one
    assert target.exists()


@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, 0.99])
def test_a_truncated_checkpoint_is_refused(file, kept):
    content = file.read_bytes()
    file.write_bytes(content[: int(kept if kept >= 1 else kept * len(content))])
    with pytest.raises(CheckpointError, match=r"model\.ckpt: truncated"):
        TrainedMeshClassifier.load(file)


@pytest.mark.parametrize("content", [b"v 0 0 0\nv 1 0 0\n", b"{}", b"\x80\x02.", b"\xff" * 64])
def test_another_file_is_refused(tmp_path, content):
    file = tmp_path / "model.ckpt"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.ckpt"):
        TrainedMeshClassifier.load(file)


def test_a_zip_archive_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.ckpt", "w") as archive:
        archive.writestr("a.txt", "text")
    with pytest.raises(CheckpointError, match=r"model\.ckpt"):
        TrainedMeshClassifier.load(tmp_path / "model.ckpt")


def test_missing_file_and_folder_are_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"none\.ckpt: no such file"):
        TrainedMeshClassifier.load(tmp_path / "none.ckpt")
    with pytest.raises(CheckpointError, match="is a folder"):
        TrainedMeshClassifier.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "equigeo/2"}, "upgrade equigeo"),
        ({"format": "other/1"}, "not a checkpoint of equigeo"),
        ({"format": None}, "not a checkpoint of equigeo"),
        ({"task": "mesh-segmentation"}, "is for the task 'mesh-segmentation'"),
        ({"state": [1]}, "'state' is missing or no dict"),
        ({"state": {}}, "does not fit"),
        ({"config": {}}, "does not fit"),
        ({"training": {"history": "long"}}, "does not fit"),
        ({"config": {"model": {"name": "other"}, "classes": ["a"]}}, "does not fit"),
    ],
)
def test_newer_foreign_and_unfitting_checkpoints_are_refused(file, changes, message):
    _rewrite(file, **changes)
    with pytest.raises(CheckpointError, match=message) as caught:
        TrainedMeshClassifier.load(file)
    assert str(file) in str(caught.value)


def test_weights_of_another_model_are_refused(file):
    state = torch.load(file, weights_only=True)["state"]
    _rewrite(file, state={name: torch.zeros(3) for name in state})
    with pytest.raises(CheckpointError, match="does not fit"):
        TrainedMeshClassifier.load(file)
