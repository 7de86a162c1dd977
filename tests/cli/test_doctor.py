import json

import pytest
import torch
from e3nn import o3
from torch import nn

import equigeo
from equigeo.cli import main
from equigeo.cli.doctor import inspect_model
from equigeo.ops import check_ops
from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.ops.self_test import OpCheck
from tests.training.test_checkpoint import Bomb


@pytest.fixture(autouse=True)
def checks(monkeypatch):
    """Results of comparisons that are not made."""
    found = []
    monkeypatch.setattr(equigeo.ops, "check_ops", lambda device: found)
    return found


def test_versions_kernels_and_packages_are_shown(capsys, checks):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert equigeo.__version__ in out
    assert "cache" in out
    (line,) = [line for line in out.splitlines() if line.startswith("neighbors ")]
    assert line.split(maxsplit=1)[1] == equigeo.points.neighbor_backend()
    (line,) = [line for line in out.splitlines() if line.startswith("CUDA kernels: status ")]
    assert line.split(maxsplit=3)[3] == "executed on NVIDIA H100 and H200, and on the simulator"
    assert "CUDA kernels: compiled for" in out
    checks.append(OpCheck("gather_sum", "passed", "", 0.1))
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [check["op"] for check in found["ops"]] == ["gather_sum"]
    assert found["problems"] == []
    assert found["environment"]["equigeo"] == equigeo.__version__
    assert found["packages"]["e3nn"]


def test_a_wrong_kernel_is_shown_and_is_the_exit_status(capsys, checks):
    checks.append(OpCheck("gather_sum", "failed", "gather_sum: it differs", 0.1))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "FAILED gather_sum: it differs" in out
    assert "1 ops beside their reference implementations" in out
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"] == ["gather_sum: it differs"]


def test_a_model_is_looked_at_and_nothing_of_ours_is_replaced(capsys, checkpoint):
    assert main(["doctor", str(checkpoint), "--json"]) == 0
    model = json.loads(capsys.readouterr().out)["model"]
    assert model["task"] == "mesh-classification"
    assert model["trained"] == "2 of 2 epochs"
    assert model["classes"] == 3
    assert model["parameters"] > 1000
    assert main(["doctor", str(checkpoint)]) == 0
    assert "mesh-classification" in capsys.readouterr().out
    found = inspect_model(checkpoint)
    assert found["task"] == "mesh-classification"
    assert "use its kernels already" in found["remark"]


def test_a_file_that_is_no_model_is_one_message(refused, tmp_path):
    (tmp_path / "x.ckpt").write_text("x")
    assert "x.ckpt" in refused("doctor", tmp_path / "x.ckpt")


def test_json_has_every_op(capsys, checks):
    checks += check_ops("meta")  # compares nothing: there are no kernels; tests/ops compares all
    assert main(["selftest", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {check["op"] for check in found["ops"]} == {*SCHEMAS}
    assert found["problems"] == []
    assert found["seconds"] >= 0


def test_the_old_name_prints_a_line_for_each_op_unless_quiet(capsys, checks):
    checks += [
        OpCheck("gather_sum", "passed", "", 0.1),
        OpCheck("block_linear", "reference only", "no kernel", 0.0),
        OpCheck("grid_product", "failed", "grid_product: \x1b it differs", 0.1),
    ]
    assert main(["selftest"]) == 1
    out, err = capsys.readouterr()
    assert err == "equigeo: selftest is a part of equigeo doctor; the old name goes away in 0.4\n"
    lines = out.splitlines()
    assert lines[0] == "gather_sum    passed  0.10 s"
    assert lines[2] == r"FAILED grid_product: \x1b it differs"
    assert lines[3].startswith("3 ops beside their reference implementations in ")
    assert lines[3].endswith("1 failed, 1 passed, 1 reference only")
    assert main(["selftest", "--quiet"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.fixture
def pickled(tmp_path):
    """A file of two layers of e3nn and one of torch."""
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
    torch.save({"model": Bomb("exploded")}, tmp_path / "bomb.pt")
    for arguments in ([], ["--json"]):
        assert main(["doctor", "bomb.pt", *arguments]) in {0, 2}
        assert not (tmp_path / "exploded").exists()
    with pytest.raises(ValueError, match=r"no torch\.nn\.Module"):
        inspect_model(tmp_path / "bomb.pt", trust=True)
    assert (tmp_path / "exploded").exists()  # the bomb is a real one


def test_a_trusted_model_is_accelerated_in_memory(pickled, capsys):
    before = pickled.read_bytes()
    assert main(["doctor", str(pickled), "--trust", "--json"]) == 0
    model = json.loads(capsys.readouterr().out)["model"]
    assert {entry["class"]: entry["number"] for entry in model["replaced"]} == {
        "Linear": 1, "FullyConnectedTensorProduct": 1,
    }  # fmt: skip
    assert model["kept"] == []
    assert pickled.read_bytes() == before
    assert main(["doctor", str(pickled), "--trust"]) == 0
    out = capsys.readouterr().out
    assert "replaced by equigeo.nn.Linear: 1 of the class Linear" in out


def test_what_is_kept_has_a_reason(tmp_path):
    layer = o3.Linear("4x0e", "4x0e")
    torch.save(nn.ModuleDict({"a": layer}), tmp_path / "a.pt")
    found = inspect_model(tmp_path / "a.pt", trust=True)
    assert [entry["class"] for entry in found["replaced"]] == ["Linear"]
    torch.save(nn.Sequential(nn.Linear(2, 2)), tmp_path / "b.pt")
    found = inspect_model(tmp_path / "b.pt", trust=True)
    assert found["replaced"] == []
    assert "no layer" in found["remark"]


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
