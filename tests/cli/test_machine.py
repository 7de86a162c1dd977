"""``--device`` and ``--threads`` of every command that computes."""

from __future__ import annotations

import argparse

import pytest
import torch

from equigeo.cli import main
from equigeo.cli.machine import use_machine


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    """Number of threads, put back afterwards."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


COMMANDS = ["train", "evaluate", "predict", "selftest"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_card_that_is_missing_is_one_error(command, checkpoint, data, tmp_path, capsys):
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    words = {
        "train": ["mesh-classification", "--data", data, "--output", tmp_path / "run"],
        "evaluate": [checkpoint],
        "predict": [checkpoint, data / "ball" / "test"],
        "selftest": [],
    }[command]
    assert main([command, *map(str, words), "--device", "cuda"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "GPU" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_the_number_of_threads_is_taken(device, checkpoint, data):
    words = [str(checkpoint), str(data / "ball" / "test" / "T5.obj")]
    assert main(["predict", *words, "--device", device, "--threads", "3"]) == 0
    assert torch.get_num_threads() == 3


def test_the_device_is_a_card_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    found = {
        name: use_machine(argparse.Namespace(device=name, threads=None)).type
        for name in ("auto", "cpu", "cuda")
    }
    assert found == {"auto": "cuda", "cpu": "cpu", "cuda": "cuda"}
