"""``equigeo doctor MODEL``: what accelerate would replace, and what is not loaded, and why."""

from __future__ import annotations

import json
import os

import pytest
import torch
from e3nn import o3
from torch import nn

from equigeo.cli import doctor, main
from equigeo.cli.inspect_model import inspect_model


@pytest.fixture(autouse=True)
def _no_ops(monkeypatch):
    monkeypatch.setattr(doctor.equigeo.ops, "check_ops", lambda device: [])


class Bomb:
    """What runs code when it is unpickled."""

    def __reduce__(self):
        return (os.mkdir, ("exploded",))


@pytest.fixture
def pickled(tmp_path):
    """A model with two layers of e3nn, one of them hooked, and one of torch."""
    model = nn.Sequential(
        o3.Linear("4x0e+4x1o", "4x0e+4x1o"),
        o3.FullyConnectedTensorProduct("4x0e+4x1o", "1x0e", "4x0e"),
        nn.Linear(4, 2),
    )
    torch.save(model, tmp_path / "model.pt")
    return tmp_path / "model.pt"


def test_a_pickle_is_not_loaded_but_its_classes_are_named(pickled):
    found = inspect_model(pickled)
    assert found["kind"] == "pickled module"
    assert "runs code that the file chooses" in found["remark"]
    assert "--trust" in found["remark"]
    assert found["recognized"] == [
        "e3nn.o3._linear.Linear",
        "e3nn.o3._tensor_product._sub.FullyConnectedTensorProduct",
    ]


def test_nothing_in_a_file_runs_unless_it_is_trusted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"model": Bomb()}, tmp_path / "bomb.pt")
    for arguments in ([], ["--json"]):
        assert main(["doctor", "bomb.pt", *arguments]) in {0, 2}
        assert not (tmp_path / "exploded").exists()
    with pytest.raises(ValueError, match=r"no torch\.nn\.Module"):
        inspect_model(tmp_path / "bomb.pt", trust=True)
    assert (tmp_path / "exploded").exists()  # the bomb is a real one


def test_a_trusted_model_is_accelerated_in_memory_and_measured(pickled, capsys):
    before = pickled.read_bytes()
    assert main(["doctor", str(pickled), "--trust", "--json"]) == 0
    model = json.loads(capsys.readouterr().out)["model"]
    assert {entry["path"] for entry in model["replaced"]} == {"0", "1"}
    assert model["kept"] == []
    assert all(entry["before_ms"] > 0 and entry["after_ms"] > 0 for entry in model["replaced"])
    times = [sum(entry[name] for entry in model["replaced"]) for name in ("before_ms", "after_ms")]
    assert model["speedup"] == pytest.approx(times[0] / times[1])
    assert pickled.read_bytes() == before
    assert main(["doctor", str(pickled), "--trust"]) == 0
    out = capsys.readouterr().out
    assert "replaced 0 (Linear) by equigeo.nn.Linear: " in out


def test_what_is_kept_has_a_reason(tmp_path):
    layer = o3.Linear("4x0e", "4x0e")
    torch.save(nn.ModuleDict({"a": layer}), tmp_path / "a.pt")
    found = inspect_model(tmp_path / "a.pt", trust=True)
    assert [entry["path"] for entry in found["replaced"]] == ["a"]
    torch.save(nn.Sequential(nn.Linear(2, 2)), tmp_path / "b.pt")
    found = inspect_model(tmp_path / "b.pt", trust=True)
    assert (found["replaced"], found["speedup"]) == ([], 1.0)
    assert "no layer" in found["remark"]


def test_a_checkpoint_of_this_library_has_nothing_to_replace(checkpoint):
    found = inspect_model(checkpoint)
    assert found["task"] == "mesh-classification"
    assert "use its kernels already" in found["remark"]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_other_files_are_told_apart(tmp_path):
    script = torch.jit.script(nn.Linear(2, 2))
    script.save(tmp_path / "script.pt")
    assert inspect_model(tmp_path / "script.pt")["kind"] == "TorchScript"
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "state.pt")
    found = inspect_model(tmp_path / "state.pt")
    assert (found["kind"], found["tensors"]) == ("state", 2)
    with torch.package.PackageExporter(tmp_path / "package.pt") as package:
        package.save_pickle("model", "model.pkl", {"a": 1})
    assert inspect_model(tmp_path / "package.pt")["kind"] == "package"
    with pytest.raises(ValueError, match="no such file"):
        inspect_model(tmp_path / "none.pt")
