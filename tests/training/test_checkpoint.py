import io
import json
import os
import pickle
import zipfile
from contextlib import suppress
from dataclasses import replace

import pytest
import torch

from equigeo.cli import main
from equigeo.mesh import load_mesh
from equigeo.tasks.mesh_classification import MeshConfig, TrainedMeshClassifier
from equigeo.training import Checkpoint, CheckpointError
from equigeo.training.novelty import Novelty
from tests.make_data import DATA
from tests.tasks.tiny_data import small_classifier
from tests.wrong_inputs import refused


@pytest.fixture
def checkpoint():
    config = {
        "model": small_classifier().config.to_dict(),
        "classes": ["a", "b", "c"],
        "train": MeshConfig("builtin").to_dict(),
        "version": "0",
    }
    return Checkpoint(
        TrainedMeshClassifier.task, config, small_classifier().state_dict(), {"history": []}
    )


@pytest.fixture
def file(checkpoint, tmp_path):
    checkpoint.save(tmp_path / "model.ckpt")
    return tmp_path / "model.ckpt"


def test_a_saved_checkpoint_loads_to_the_same_model_from_any_path(file, checkpoint, tmp_path):
    loaded = TrainedMeshClassifier.load(file)
    assert loaded.classes == ("a", "b", "c")
    assert loaded.config == MeshConfig("builtin")
    state = loaded.model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in checkpoint.state.items())
    assert TrainedMeshClassifier.load(str(file)).classes == ("a", "b", "c")
    copy = str(tmp_path / "copy.ckpt")
    checkpoint.save(copy)
    assert Checkpoint.load(copy, checkpoint.task).config == checkpoint.config
    refused("no such file", TrainedMeshClassifier.load, "none.ckpt", error=CheckpointError)


def test_the_format_is_the_promised_one_and_novelty_may_be_missing(file, checkpoint):
    names = {"format", "task", "config", "state", "training"}
    assert torch.load(file, weights_only=True).keys() == names
    assert TrainedMeshClassifier.load(file).novelty is None  # as of a file of an earlier version
    width = TrainedMeshClassifier.load(file).model.embedding_width
    draw = torch.Generator().manual_seed(0)
    novelty = Novelty.fit(torch.randn(60, width, generator=draw), torch.arange(60) % 3)
    replace(checkpoint, novelty=novelty.state_dict()).save(file)
    content = torch.load(file, weights_only=True)
    assert content.keys() == names | {"novelty"}
    assert content["format"] == "equigeo/1"
    found = TrainedMeshClassifier.load(file).novelty
    assert found.limit == pytest.approx(novelty.limit)
    assert found.centers.shape == (3, width)


class Bomb:
    """An object that makes a folder where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("is_archive", [False, True])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path, is_archive):
    file, target = tmp_path / "model.ckpt", tmp_path / "exploded"
    file.write_bytes(pickle.dumps(Bomb(target)))
    if is_archive:
        torch.save({"format": "equigeo/1", "state": Bomb(target)}, file)
    refused(r"model\.ckpt.*never loaded", TrainedMeshClassifier.load, file, error=CheckpointError)
    assert not target.exists()
    with suppress(RuntimeError):
        torch.load(file, weights_only=False)  # the bomb is a real one
    assert target.exists()


@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, 0.99])
def test_a_truncated_checkpoint_is_refused(file, kept):
    content = file.read_bytes()
    file.write_bytes(content[: int(kept if kept >= 1 else kept * len(content))])
    refused(r"model\.ckpt: truncated", TrainedMeshClassifier.load, file, error=CheckpointError)


def test_other_and_missing_files_and_folders_are_refused(tmp_path):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.txt", "text")
    others = (b"v 0 0 0\nv 1 0 0\n", b"{}", b"\x80\x02.", b"\xff" * 64, archive.getvalue())
    for content in others:
        (tmp_path / "model.ckpt").write_bytes(content)
        with pytest.raises(CheckpointError, match=r"model\.ckpt"):
            TrainedMeshClassifier.load(tmp_path / "model.ckpt")
    with pytest.raises(CheckpointError, match=r"none\.ckpt: no such file"):
        TrainedMeshClassifier.load(tmp_path / "none.ckpt")
    refused("is a folder", TrainedMeshClassifier.load, tmp_path, error=CheckpointError)


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
    torch.save(torch.load(file, weights_only=True) | changes, file)
    with pytest.raises(CheckpointError, match=message) as caught:
        TrainedMeshClassifier.load(file)
    assert str(file) in str(caught.value)


WRITTEN = DATA / "checkpoints" / "mesh_classification_0.1.0.ckpt"


def test_a_model_of_0_1_0_gives_the_logits_that_it_gave_there_and_is_used(capsys):
    expected = json.loads(WRITTEN.with_suffix(".json").read_text())
    trained = TrainedMeshClassifier.load(WRITTEN)
    assert trained.version == "0.1.0"
    assert list(trained.classes) == expected["classes"]
    assert trained.is_finished
    mesh, _ = load_mesh(DATA / "meshes" / "ant.obj")
    want = torch.tensor(expected["logits"])
    # features of order 1 in float32, summed in another order; logits differ a hundred times more
    torch.testing.assert_close(trained.logits([mesh])[0], want, rtol=0, atol=1e-5)
    assert float((want - want.mean()).abs().min()) > 1e-3
    recipe = trained.config.recipe
    # none of these had a name then
    assert (recipe.update_bn, recipe.minutes, recipe.warmup, recipe.clip_norm) == (False, 0, 0, 0)
    assert main(["predict", str(WRITTEN), str(DATA / "meshes" / "ant.obj"), "--json"]) == 0
    ((best, _),) = json.loads(capsys.readouterr().out)["ranking"]
    assert best == expected["classes"][max(range(3), key=expected["logits"].__getitem__)]
