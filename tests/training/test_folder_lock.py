import errno
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from equigeo.tasks.mesh_classification import MeshConfig
from equigeo.training import OutputFolderError
from equigeo.training import files as folder_lock
from equigeo.training.files import lock_folder, refuse_locked
from equigeo.training.run_folder import RunFolder
from tests.tasks.mesh_run import train_meshes
from tests.tier import tier

_HOLDER = """
import sys, time
from pathlib import Path
from equigeo.training.files import lock_folder

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


def test_another_thread_or_caller_of_the_same_process_is_refused(tmp_path):
    with lock_folder(tmp_path):
        with pytest.raises(OutputFolderError), lock_folder(tmp_path):
            pass
        with pytest.raises(OutputFolderError):
            refuse_locked(tmp_path)
    with lock_folder(tmp_path):
        pass


_TAKER = """
import sys
from pathlib import Path
from equigeo.training.files import OutputFolderError
from equigeo.training.files import lock_folder

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
def test_training_is_refused_where_another_run_trains(mode, config, dataset, small_model, tmp_path):
    RunFolder(tmp_path, MeshConfig).begin(config)
    before = (tmp_path / "config.json").read_bytes()
    with lock_folder(tmp_path):
        with pytest.raises(OutputFolderError, match=f"process {os.getpid()} .*trains there"):
            train_meshes(config, dataset, tmp_path, model=small_model(), **mode)
    assert (tmp_path / "config.json").read_bytes() == before
    assert os.listdir(tmp_path) == ["config.json"]


def test_a_folder_in_which_nothing_was_written_is_removed(config, tmp_path):
    folder = RunFolder(tmp_path / "a" / "run", MeshConfig)
    with folder.lock():
        assert folder.path.is_dir()
    assert not folder.path.exists()
    with folder.lock():
        folder.begin(config)
    assert os.listdir(folder.path) == ["config.json"]
