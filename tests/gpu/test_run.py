"""What a machine with a card runs, on the simulator; and what one without a card is told."""

import json
import shutil
import subprocess

import pytest
import torch

from tests.gpu import run as program
from tests.ops.self_test.simulated import ROOT, WRONG, needs_simulator, run

SELECT = ["gather_sum | small", "nn.Linear"]
ARGUMENTS = [f"--select={part}" for part in SELECT] + ["--edges=8", "--rounds=1", "--simulate"]


def code(output: str) -> str:
    return f"""
import sys
from tests.gpu.run import main
sys.exit(main([{output!r}, *{ARGUMENTS!r}]))
"""


@needs_simulator
def test_all_of_it_runs_on_the_simulator(tmp_path):
    output = tmp_path / "gpu.json"
    result = run(code(str(output)), tmp_path / "cache")
    assert result.returncode == 0, result.stdout + result.stderr
    record = json.loads(output.read_text())
    assert record["failures"] == []
    assert record["self-test"]["state"] == "passed"
    assert record["ops"]["rows"]["gather_sum"]["cases"] == 2
    assert record["layers"]["rows"]["nn.Linear"]["eager"] == "passed"
    assert record["times"]["microseconds"]["gather_sum, 128 channels, both"]["ours"] > 0
    assert {"commit", "versions", "status"} <= set(record["circumstances"])


@needs_simulator
def test_a_broken_kernel_ends_with_one_and_is_named(tmp_path):
    output = tmp_path / "gpu.json"
    result = run(WRONG + code(str(output)), tmp_path / "cache")
    assert result.returncode == 1, result.stderr
    first, second = json.loads(output.read_text())["failures"]
    assert first.startswith("self-test: grid_product")
    assert second == program.AND_NOW


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a card")
def test_a_machine_without_a_card_is_told_so(tmp_path, capsys):
    assert program.main([str(tmp_path / "gpu.json")]) == 1
    assert capsys.readouterr().err == program.NO_CARD + "\n"
    assert not (tmp_path / "gpu.json").exists()


def test_simulation_is_asked_for_twice_or_not_at_all(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("EQUIGEO_SIMULATE_CUDA", raising=False)
    assert program.main([str(tmp_path / "gpu.json"), "--simulate"]) == 1
    assert "--simulate goes with EQUIGEO_SIMULATE_CUDA=1" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine may have a card")
@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_make_ends_with_a_sentence_before_it_builds_anything(tmp_path):
    command = ["make", "gpu", f"VENV={tmp_path / 'venv'}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    first, *_ = result.stderr.splitlines()
    assert first.startswith("error: there is no CUDA card here")
    assert not (tmp_path / "venv").exists()
