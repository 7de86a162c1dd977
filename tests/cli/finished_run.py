"""A finished run on meshes, made through the command line, and commands that are refused."""

import pytest

from equigeo.cli import main
from tests.tasks.tiny_data import write_tiny_folder


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return write_tiny_folder(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def run_folder(data, tmp_path_factory):
    """A finished run; tests must not write into it."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    arguments = ["--data", str(data), "--output", str(folder), "--epochs", "2"]
    assert main(["train", "mesh-classification", *arguments]) == 0
    return folder


@pytest.fixture
def checkpoint(run_folder, tmp_path):
    """A copy of the checkpoint in a folder of its own."""
    copy = tmp_path / "copy" / "model.ckpt"
    copy.parent.mkdir()
    copy.write_bytes((run_folder / "model.ckpt").read_bytes())
    return copy


@pytest.fixture
def refused(capsys):
    """Run a command that must fail, and give its message."""

    def run(*arguments):
        assert main([str(a) for a in arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        messages = [line for line in err.splitlines() if line.startswith("equigeo: error: ")]
        assert len(messages) == 1
        assert "Traceback" not in err
        return err

    return run
