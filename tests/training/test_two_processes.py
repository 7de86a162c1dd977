"""Two processes and one run folder."""

import os
import subprocess
import sys
import time

import pytest

from equigeo.tasks.mesh_classification import MeshConfig, TrainedMeshClassifier
from equigeo.training import OutputFolderError, RunFolder
from tests.tasks.mesh_run import train_meshes

_TRAIN = """
import sys, time
from pathlib import Path
from tests.tasks.mesh_run import train_meshes
from tests.tasks.tiny_data import tiny_dataset
from equigeo.mesh import ClassifierConfig, PrimalDualClassifier
from equigeo.tasks.mesh_classification import MeshConfig
from equigeo.training import Recipe
from equigeo.training.loop.lightning import L

class Slow(L.Callback):
    def on_train_epoch_end(self, trainer, module):
        time.sleep(0.2)

config = MeshConfig("memory", recipe=Recipe(epochs=10_000, batch_size=12, learning_rate=1e-2))
model = PrimalDualClassifier(ClassifierConfig(3, channels=(4,), keep=(None,)))
train_meshes(config, tiny_dataset(), Path(sys.argv[1]), model=model, callbacks=[Slow()])
"""


@pytest.fixture
def running(tmp_path):
    """A process that trains, after its first checkpoint, and the folder of its run."""
    folder = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", _TRAIN, folder])
    while not (folder / "model.ckpt").exists():
        assert process.poll() is None
        time.sleep(0.05)
    yield process, folder
    process.kill()
    process.wait()


@pytest.mark.full
def test_second_process_is_refused_until_the_first_is_killed(running, config, dataset, small_model):
    process, folder = running
    before, locked = (folder / "config.json").read_bytes(), f"process {process.pid} .*trains there"
    for mode in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(OutputFolderError, match=locked) as caught:
            train_meshes(config, dataset, folder, model=small_model(), **mode)
        assert str(folder) in str(caught.value)
        assert (folder / "config.json").read_bytes() == before
        assert process.poll() is None
    # checkpoints load at any moment
    epochs = []
    while len(epochs) < 40 or epochs[-1] == epochs[0]:
        epochs.append(TrainedMeshClassifier.load(folder / "model.ckpt").epochs_done)
    assert epochs == sorted(epochs)
    process.kill()
    process.wait()
    trained = train_meshes(config, dataset, folder, model=small_model(), overwrite=True)
    assert trained.is_finished
    names = {"config.json", "history.json", "model.ckpt"}
    assert set(os.listdir(folder)) == names
    assert isinstance(trained.config, MeshConfig)


def test_a_folder_in_which_nothing_was_written_is_removed(config, tmp_path):
    folder = RunFolder(tmp_path / "a" / "run", MeshConfig)
    with folder.lock():
        assert folder.path.is_dir()
    assert not folder.path.exists()
    with folder.lock():
        folder.begin(config)
    assert os.listdir(folder.path) == ["config.json"]
