"""A finished run on meshes, made through the command line."""

from __future__ import annotations

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
