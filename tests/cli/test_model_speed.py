import json

import pytest
import torch

import equigeo
from equigeo.cli import doctor, main, model_speed
from equigeo.cli.model_speed import measure_model, print_seconds
from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.tasks import TASKS, find_task
from tests.tasks.tiny_checkpoints import tiny_checkpoints

CHECKPOINTS = tiny_checkpoints()
needs_kernels = pytest.mark.skipif(
    equigeo.kernels_info()["cpu"] is None, reason="compares with compiled kernels"
)


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(model_speed, "_REPETITIONS", 1)
    monkeypatch.setattr(doctor.equigeo.ops, "check_ops", lambda device: [])


@pytest.fixture
def without_kernels(monkeypatch):
    """No process of its own; what it would print."""
    monkeypatch.setattr(model_speed, "_seconds_without_kernels", lambda path: 1e3)


def saved(name, tmp_path):
    CHECKPOINTS[name].save(tmp_path / "model.ckpt")
    return tmp_path / "model.ckpt"


@pytest.mark.full
@needs_kernels
def test_a_process_without_kernels_is_timed(tmp_path, capsys):
    path = saved("potential", tmp_path)
    assert main(["doctor", str(path), "--json"]) == 0
    speed = json.loads(capsys.readouterr().out)["model"]["speed"]
    assert {"radial_conv", "symmetric_contraction_backward"} <= {*speed["compiled"]}
    assert speed["on"] == "64 atoms"
    assert speed["remark"] == ""
    assert speed["speedup"] == pytest.approx(speed["reference_ms"] / speed["kernels_ms"])
    assert speed["kernels_ms"] > 0


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_every_task_has_input_on_which_its_models_run(name, tmp_path, without_kernels):
    path = saved(name, tmp_path)
    found = find_task(path, TASKS).trained_type.load(path).trial()
    assert found is not None
    state = torch.random.get_rng_state()
    speed = measure_model(path)
    assert torch.equal(state, torch.random.get_rng_state())
    assert {*speed["compiled"], *speed["reference"]} <= {*SCHEMAS}
    assert speed["on"] == found[0]
    assert ("speedup" in speed) == (speed["remark"] == "") == bool(speed["compiled"])


@needs_kernels
def test_one_line_says_what_kernels_gain(tmp_path, capsys, without_kernels):
    assert main(["doctor", str(saved("mesh", tmp_path))]) == 0
    lines = capsys.readouterr().out.splitlines()
    (kernels,) = [line for line in lines if line.startswith("compiled kernels ")]
    assert "attention_conv" in kernels
    (speed,) = [line for line in lines if line.startswith("speed ")]
    assert "a mesh of 1,280 faces: " in speed
    assert speed.endswith("times as fast")


def test_a_model_without_ops_is_not_said_to_gain(tmp_path, capsys):
    assert main(["doctor", str(saved("affnist cnn", tmp_path))]) == 0
    out = capsys.readouterr().out
    assert "not measured: one pass of it is made of operations of PyTorch alone" in out


@needs_kernels
def test_a_process_that_fails_is_a_remark(tmp_path, monkeypatch):
    monkeypatch.setattr(model_speed.sys, "executable", str(tmp_path / "none"))
    speed = measure_model(saved("mesh", tmp_path))
    assert speed["remark"].startswith("not measured: the process without kernels failed")
    assert "speedup" not in speed


def test_the_other_process_prints_json(tmp_path, capsys):
    print_seconds(str(saved("tsp", tmp_path)), torch.get_num_threads())
    assert json.loads(capsys.readouterr().out)["seconds"] > 0
