import copy
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
import torch

from equigeo._core.files import replace_file
from equigeo.tasks.mesh_classification import MeshClassification, MeshConfig, TrainedMeshClassifier
from equigeo.training import Checkpoint, CheckpointError, OutputFolderError, log_history
from equigeo.training import run_folder as folder_lock
from equigeo.training.loop.fit import HistoryLogger
from equigeo.training.run_folder import RunFolder, lock_folder, refuse_locked
from equigeo.training.train import resumable_state
from tests.tasks.tiny_data import StopAfterTwo, small_classifier, train_meshes
from tests.tier import tier

NAN = float("nan")


@pytest.fixture(scope="module")
def averaged(config):
    return replace(config, recipe=replace(config.recipe, ema_decay=0.9))


@pytest.fixture(scope="module")
def two_epochs(averaged, tmp_path_factory):
    """A run that has done two epochs of three; tests must not write into it."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    callbacks = [StopAfterTwo()]
    train_meshes(averaged, folder, callbacks=callbacks)
    return folder


def _put(*path, value):
    def change(training):
        for key in path[:-1]:
            training = training[key]
        training[path[-1]] = value

    change.label = " ".join(map(str, path)) + f" {value!r:.20}"
    return change


def _drop(name):
    def change(training):
        del training[name]

    change.label = f"no {name}"
    return change


CHANGES = [
    *(_put("epochs", value=v) for v in (-1, 4, 1, 10**30, 1.5, "2", None, True)),
    *(_put("step", value=v) for v in (-1, 10**6, 0.5, "1")),
    *(_put("seconds", value=v) for v in (NAN, "long", None, 10**400)),
    *(_put("threads", value=v) for v in (-1, 1.5, "2", None)),
    *(_put("weights", value=v) for v in ({}, [], None)),
    _put("average", value=None),
    _put("average", "updates", value=-1),
    _put("average", "state", value={}),
    *(_put("optimizer", "param_groups", 0, "betas", value=v) for v in (None, 0.9, (NAN, 0.9))),
    *(_put("optimizer", "param_groups", 0, "lr", value=v) for v in (NAN, "fast", None)),
    _put("optimizer", "param_groups", 0, "fused", value="yes"),
    _put("optimizer", "param_groups", 0, "params", value=[0]),
    _put("optimizer", "param_groups", value=[]),
    _put("optimizer", "state", 0, "exp_avg", value=torch.zeros(1)),
    _put("optimizer", "state", 0, "exp_avg", value=None),
    _put("optimizer", "state", 10**9, value={}),
    _put("optimizer", value=None),
    *(_put("schedule", value=v) for v in (None, [], {}, {"step": 5, "last_epoch": 6})),
    _put("schedule", "total_steps", value=0),
    *(_put("schedule", "last_epoch", value=v) for v in ("late", 0, 10**6)),
    _put("schedule", "_schedule_phases", value=[]),
    _put("schedule", "base_lrs", value=[NAN]),
    _put("history", value=[]),
    _put("samples", value=torch.zeros(12, 2, dtype=torch.long)),
    *(_put("samples", value=v) for v in ([], torch.zeros(1, 2), torch.zeros(2).long())),
    *map(_drop, ("weights", "average", "optimizer", "schedule", "history")),
]


def test_state_that_no_run_has_reached_is_refused(averaged, dataset, two_epochs, tmp_path):
    path = tmp_path / "model.ckpt"
    plan = MeshClassification().plan(averaged, dataset, small_classifier())
    read = partial(resumable_state, path, TrainedMeshClassifier, plan, plan.description())
    saved = torch.load(two_epochs / "model.ckpt", weights_only=True)
    torch.save(saved, path)
    assert read()["epochs"] == 2
    for change in CHANGES:
        content = copy.deepcopy(saved)
        change(content["training"])
        torch.save(content, path)
        try:
            pytest.fail(f"accepted: {change.label}, {read()}")
        except CheckpointError as error:
            message = str(error).replace(str(tmp_path), "")
        assert re.search("--overwrite|train again", message), change.label
        assert len(message) <= 400, change.label


def test_other_training_samples_and_damage_are_refused_and_leave_the_run(
    averaged, dataset, two_epochs, tmp_path
):
    run = shutil.copytree(two_epochs, tmp_path / "run")
    meshes, order = list(dataset.meshes), torch.arange(len(dataset))
    meshes[0] = meshes[0].act(2 * torch.eye(3))
    order[:6] = order[:6].flip(0)
    relabelled = dataset.labels.clone()
    relabelled[:2], relabelled[6:8] = 1, 0
    fewer = dataset.in_train & (torch.arange(len(dataset)) != 1)
    for others, message in (
        (replace(dataset, meshes=tuple(meshes)), "1 of its 12 training samples"),
        (replace(dataset, meshes=tuple(dataset.meshes[i] for i in order)), "4 of its 12"),
        (replace(dataset, labels=relabelled), "4 of its 12"),
        (replace(dataset, in_train=fewer), "has 12 training samples, the data have 11"),
    ):
        with pytest.raises(CheckpointError, match=f"{message}.*bring back the data"):
            train_meshes(averaged, run, others, resume=True)
    content = torch.load(run / "model.ckpt", weights_only=True)
    damaged = {name: x for name, x in content["training"].items() if name != "optimizer"}
    torch.save(content | {"training": damaged}, run / "model.ckpt")
    with pytest.raises(CheckpointError, match=r"--overwrite|train again"):
        train_meshes(averaged, run, resume=True)
    for name in ("config.json", "history.json"):
        assert (run / name).read_bytes() == (two_epochs / name).read_bytes()
    torch.save(content, run / "model.ckpt")
    assert train_meshes(averaged, run, resume=True).is_finished


def test_a_run_whose_model_was_described_in_other_words_is_resumed(config, tmp_path):
    run, file = tmp_path / "run", tmp_path / "run" / "model.ckpt"
    train_meshes(config, run)
    saved = Checkpoint.load(file)
    del saved.config["model"]["coupling"]  # has its default, as older versions left it out
    saved.save(file)
    assert train_meshes(config, run, resume=True).is_finished
    for channels in ([4, 4], "wide"):
        saved.config["model"]["channels"] = channels
        saved.save(file)
        with pytest.raises(CheckpointError, match="another 'model' configuration"):
            train_meshes(config, run, resume=True)


def test_a_run_of_an_earlier_version_is_resumed(config, tmp_path):
    train_meshes(config, tmp_path / "run")
    file, saved = tmp_path / "run" / "config.json", config.to_dict()
    checkpoint = Checkpoint.load(tmp_path / "run" / "model.ckpt")
    for name in ("stretch", "resample", "resolutions", "damaged", "update_bn"):
        del saved["recipe"][name], checkpoint.config["train"]["recipe"][name]
    for line in checkpoint.training["history"]:
        del line["threads"]
    file.write_text(json.dumps(saved))
    checkpoint.save(tmp_path / "run" / "model.ckpt")
    again = train_meshes(config, tmp_path / "run", resume=True)
    assert again.is_finished
    assert again.config == config
    checkpoint.config["train"]["recipe"]["jitter"] = 0.5
    checkpoint.save(tmp_path / "run" / "model.ckpt")
    with pytest.raises(CheckpointError, match="another 'train' configuration"):
        train_meshes(config, tmp_path / "run", resume=True)


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
    lost, config, tmp_path, monkeypatch
):
    run, told = tmp_path / "run", Told()
    train = partial(train_meshes, config, run)

    def replace_or_die(path, content):
        if path.name == "history.json" and len(json.loads(content)) == lost:
            raise KeyboardInterrupt
        replace_file(path, content)

    with monkeypatch.context() as patch:
        patch.setattr("equigeo.training.run_folder.replace_file", replace_or_die)
        with pytest.raises(KeyboardInterrupt):
            train(callbacks=[told, *log_history("csv", run)])
    assert told.epochs == list(range(1, lost))
    trained = train(
        resume=True, callbacks=[told, *log_history("csv", run)]
    )  # fmt: skip
    assert trained.is_finished
    assert json.loads((run / "history.json").read_text()) == trained.history
    assert len((run / "log.csv").read_text().splitlines()) == 1 + 3
    assert told.epochs == [1, 2, 3, *(["closed"] if lost == 3 else [])]
    (run / "log.csv").unlink()  # a session may also have been killed just before this
    train(resume=True, callbacks=[told, *log_history("csv", run)])
    assert len((run / "log.csv").read_text().splitlines()) == 1 + 3
    assert told.epochs[3:] == (["closed"] if lost == 3 else [])  # told nothing twice


_HOLDER = """
import sys, time
from pathlib import Path
from equigeo.training.run_folder import lock_folder

with lock_folder(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def holder(folder):
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, folder],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout.readline() == "locked\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("how", tier(["SIGKILL"], ["its end", "SIGTERM", "SIGKILL"]))
def test_a_second_process_is_refused_by_name_until_the_first_ends(how, tmp_path):
    with holder(tmp_path) as process:
        for refuse in (lock_folder(tmp_path).__enter__, lambda: refuse_locked(tmp_path)):
            with pytest.raises(OutputFolderError, match="choose another --output") as caught:
                refuse()
            assert str(tmp_path) in str(caught.value)
            assert f"process {process.pid} on " in str(caught.value)
        if how == "its end":
            process.communicate("\n")
        else:
            process.send_signal(getattr(signal, how))
            process.wait()
        refuse_locked(tmp_path)
        with lock_folder(tmp_path):
            pass
    assert os.listdir(tmp_path) == []


def test_another_caller_of_the_same_process_is_refused_and_an_empty_folder_removed(
    config, tmp_path
):
    with lock_folder(tmp_path):
        for refuse in (lock_folder(tmp_path).__enter__, lambda: refuse_locked(tmp_path)):
            with pytest.raises(OutputFolderError):
                refuse()
    with lock_folder(tmp_path):
        pass
    folder = RunFolder(tmp_path / "a" / "run", MeshConfig)
    with folder.lock():
        assert folder.path.is_dir()
    assert not folder.path.exists()
    with folder.lock():
        folder.begin(config)
    assert os.listdir(folder.path) == ["config.json"]


_TAKER = """
import sys
from pathlib import Path
from equigeo.training.run_folder import OutputFolderError
from equigeo.training.run_folder import lock_folder

folder, number = Path(sys.argv[1]), 0
while number < 20:
    try:
        with lock_folder(folder):
            count = folder / "count"
            value = int(count.read_text() or "0")
            count.write_text(str(value + 1))  # lost where two of them are in here
            number += 1
    except OutputFolderError:
        pass
"""


@pytest.mark.full
def test_one_process_at_a_time_is_let_in(tmp_path):
    (tmp_path / "count").write_text("0")
    takers = [subprocess.Popen([sys.executable, "-c", _TAKER, tmp_path]) for _ in range(3)]
    assert [taker.wait() for taker in takers] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "60"
    assert os.listdir(tmp_path) == ["count"]


@pytest.mark.parametrize("cause", ["no fcntl", errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL])
def test_where_there_are_no_locks_a_warning_says_so(cause, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(cause, "not here")

    if cause == "no fcntl":
        monkeypatch.setattr(folder_lock, "fcntl", None)
    else:
        monkeypatch.setattr(folder_lock.fcntl, "flock", fail)
    with pytest.warns(UserWarning, match="has no locks; do not train there twice"):
        with lock_folder(tmp_path):
            refuse_locked(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mode", [{}, {"resume": True}, {"overwrite": True}], ids=str)
def test_training_is_refused_where_another_run_trains(mode, config, tmp_path):
    RunFolder(tmp_path, MeshConfig).begin(config)
    before = (tmp_path / "config.json").read_bytes()
    with lock_folder(tmp_path):
        with pytest.raises(OutputFolderError, match=f"process {os.getpid()} .*trains there"):
            train_meshes(config, tmp_path, **mode)
    assert (tmp_path / "config.json").read_bytes() == before
    assert os.listdir(tmp_path) == ["config.json"]
