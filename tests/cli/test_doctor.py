"""``equigeo doctor``, and ``equigeo info``, which is a part of it."""

from __future__ import annotations

import json

import equigeo
from equigeo.cli import doctor, main, model_speed
from equigeo.ops import OpCheck


def test_the_environment_is_shown_by_the_old_name_too(capsys):
    assert main(["info"]) == 0
    out, err = capsys.readouterr()
    assert err == "equigeo: info is now a part of: equigeo doctor; it goes away in 0.3\n"
    assert equigeo.__version__ in out
    assert "cache" in out
    (line,) = [line for line in out.splitlines() if line.startswith("neighbors ")]
    assert line.split(maxsplit=1)[1] == equigeo.points.neighbor_backend()
    (line,) = [line for line in out.splitlines() if line.startswith("CUDA kernels: status ")]
    assert line.split(maxsplit=3)[3] == "executed on NVIDIA H100 and H200, and on the simulator"
    assert "CUDA kernels: compiled for" in out


def test_ops_and_packages_are_listed(capsys, monkeypatch):
    checks = [OpCheck("gather_sum", "passed", "", 0.1)]
    monkeypatch.setattr(doctor.equigeo.ops, "check_ops", lambda device: checks)
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [check["op"] for check in found["ops"]] == ["gather_sum"]
    assert found["problems"] == []
    assert found["environment"]["equigeo"] == equigeo.__version__
    assert found["packages"]["e3nn"]


def test_a_wrong_kernel_is_shown_and_is_the_exit_status(capsys, monkeypatch):
    wrong = OpCheck("gather_sum", "failed", "gather_sum: it differs", 0.1)
    monkeypatch.setattr(doctor.equigeo.ops, "check_ops", lambda device: [wrong])
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "FAILED gather_sum: it differs" in out
    assert "1 ops beside their reference implementations" in out
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"] == ["gather_sum: it differs"]


def test_a_model_is_looked_at(capsys, checkpoint, monkeypatch):
    monkeypatch.setattr(doctor.equigeo.ops, "check_ops", lambda device: [])
    monkeypatch.setattr(model_speed, "_seconds_without_kernels", lambda path: 1.0)
    assert main(["doctor", str(checkpoint), "--json"]) == 0
    model = json.loads(capsys.readouterr().out)["model"]
    assert model["task"] == "mesh-classification"
    assert model["trained"] == "2 of 2 epochs"
    assert model["classes"] == 3
    assert model["parameters"] > 1000
    assert main(["doctor", str(checkpoint)]) == 0
    assert "mesh-classification" in capsys.readouterr().out


def test_a_file_that_is_no_model_is_one_message(capsys, tmp_path):
    (tmp_path / "x.ckpt").write_text("x")
    assert main(["doctor", str(tmp_path / "x.ckpt")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("equigeo: error: ") == 1
