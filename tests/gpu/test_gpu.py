"""What a machine with a card runs, on the simulator; and what one without a card is told."""

import json
import math
import shutil
import subprocess

import pytest
import torch
from torch import nn

from bench.gpu_times import PROBLEMS, measure, measure_ops
from equigeo.graphs import cell_list
from tests.gpu import list_rows, op_rows
from tests.gpu import run as program
from tests.gpu.in_processes import check_rows, in_process
from tests.gpu.layer_rows import MODES, check_layers, outcome
from tests.gpu.list_rows import check_lists
from tests.gpu.model_rows import check_models
from tests.gpu.op_rows import check_ops
from tests.modes.row import Row, randn
from tests.ops.simulated import ROOT, WRONG, needs_simulator, run

pytestmark = pytest.mark.full
CPU = torch.device("cpu")


def test_processes_find_what_one_process_finds():
    select = ["gather_sum | small", "gather_sum | one hub"]
    assert check_rows("ops", CPU, select, jobs=2) == check_rows("ops", CPU, select, jobs=1)


def test_process_that_ends_or_hangs_is_a_failure_of_its_rows(tmp_path):
    unknown = in_process("nothing", CPU, ["gather_sum"], tmp_path / "a.json", limit=600)
    assert unknown["rows"] == {}
    assert unknown["failures"][0].startswith("gather_sum: the process ended with 1: ")
    slow = in_process("ops", CPU, ["gather_sum", "radial"], tmp_path / "b.json", limit=0.01)
    assert slow["failures"] == ["gather_sum, radial: the process took more than 0.01 s"]


def test_layer_rows_pass_on_the_cpu():
    found = check_layers(CPU, ["nn.Linear", "tensor_products.ChannelwiseConv of", "mds.frames"])
    assert found["failures"] == []
    assert found["rows"]["nn.Linear"] == {
        "eager": "passed",
        "float32": "passed",
        "inference": "passed",
        "compiled": "passed",
        "graph": "not supported: a graph is captured from a card",
    }
    assert found["rows"]["mds.frames"]["compiled"].startswith("not supported: the number of frames")


def test_list_rows_pass_on_the_cpu_and_a_wrong_list_is_a_failure(monkeypatch):
    found = check_lists(CPU)
    assert found["failures"] == []
    assert len(found["rows"]) > 45
    closer = cell_list.closer
    monkeypatch.setattr(cell_list, "closer", lambda *given: closer(*given) & False)
    failures = check_lists(CPU)["failures"]
    assert failures[0].startswith("10 a shell just inside: failed: other edges")


def test_other_signs_of_zeros_are_a_failure(monkeypatch):
    def search(device, backend):
        return [torch.tensor([-1.0 if backend == "cells" else 1.0]) * 0]

    monkeypatch.setattr(list_rows, "searches", lambda: [("zeros", search)])
    assert check_lists(CPU)["failures"] == ["zeros: failed: other edges"]


def test_rows_that_are_left_are_checked_by_the_next_call(tmp_path):
    output = tmp_path / "gpu.json"
    options = program.parse([str(output), "--part=ops", f"--select={ROW}"])
    record = {"failures": []}
    assert program.gather(record, CPU, options, until=0) == 1
    assert program.gather(record, CPU, options, until=math.inf) == 0
    first = json.dumps(record)
    assert json.loads(output.read_text())["ops"] == record["ops"]
    assert list(record["ops"]["rows"]) == record["ops"]["done"] == ["gather_sum"]
    assert program.gather(record, CPU, options, until=math.inf) == 0
    assert json.dumps(record) == first


def test_a_record_is_continued_with_equal_settings_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(program, "SKIPPED", True)
    words = [str(tmp_path / "gpu.json"), "--resume"]
    record = program.begun(CPU, program.parse(words))
    (tmp_path / "gpu.json").write_text(json.dumps(record | {"failures": ["self-test: a", "b"]}))
    assert program.begun(CPU, program.parse(words))["failures"] == ["b"]
    with pytest.raises(SystemExit, match="was made with edges 32768"):
        program.begun(CPU, program.parse([*words, "--edges=64"]))


def test_part_or_library_that_is_not_there_is_named(capsys):
    with pytest.raises(SystemExit):
        program.parse(["gpu.json", "--part=ops", "--part=other"])
    assert "argument --part: invalid choice: 'other'" in capsys.readouterr().err
    (failure,) = check_models(CPU, 1, ["symmetrix, float32, 32 atoms"])["failures"]
    assert failure.startswith("symmetrix, float32, 32 atoms: failed: KeyError")


class Wrong(nn.Module):
    """A layer that computes something else each time."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rand(())


@pytest.mark.parametrize("mode", ["eager", "inference"])
def test_other_numbers_are_a_failure(mode):
    row = Row("wrong", Wrong, randn((2, 3)), lambda layer, x: layer(x), "wrong")
    assert outcome(row, mode, MODES[mode], CPU).startswith("failed: AssertionError: ")


def test_capture_error_is_a_failure_only_with_wrong_numbers():
    row = Row("row", nn.Identity, randn((2, 3)), lambda layer, x: layer(x), "row")

    def raising(error):
        def mode(row, device):
            raise error

        return mode

    for name, error, start in (
        ("graph", RuntimeError("capturing"), "not captured: RuntimeError"),
        ("graph", AssertionError("other numbers"), "failed: AssertionError"),
        ("eager", RuntimeError("capturing"), "failed: RuntimeError"),
    ):
        assert outcome(row, name, raising(error), torch.device("cuda")).startswith(start)


ROW = "gather_sum | odd sizes"


def test_op_rows_pass_on_the_cpu():
    found = check_ops(CPU, [ROW, "channelwise_product, odd | small"])
    assert found["failures"] == []
    row = found["rows"]["gather_sum"]
    assert row["cases"] == 2
    assert 0 <= row["largest share of the tolerance"] <= 1
    assert found["rows"]["channelwise_product, odd"]["cases"] == 3  # bfloat16 as well


def add(found, _, wrong=1e-3):
    found[-1].flatten()[0] += wrong


def change_a_bit(found, calls):
    first = found[0].view(-1)[:1]
    if calls % 2:
        first.copy_(torch.nextafter(first, torch.full_like(first, 9)))


def fail(found, _):
    raise RuntimeError("CUDA kernel launch failed")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (add, "times what is tolerated"),
        (lambda found, _: add(found, _, math.nan), "inf times what is tolerated"),
        (change_a_bit, "two runs give different bits"),
        (fail, "CUDA kernel launch failed"),
    ],
)
def test_wrong_results_are_failures(monkeypatch, change, message):
    right, calls = op_rows.results, []

    def changed(*arguments):
        found = right(*arguments)
        calls.append(1)
        change(found, len(calls))
        return found

    monkeypatch.setattr(op_rows, "results", changed)
    failures = check_ops(CPU, [ROW])["failures"]
    assert [text.split(": ")[0] for text in failures] == [
        f"{ROW} | torch.{name}" for name in ("float32", "float64")
    ]
    assert all(message in text for text in failures)


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
    (failure,) = json.loads(output.read_text())["failures"]
    assert failure.startswith("self-test: grid_product")
    assert program.AND_NOW in result.stdout + result.stderr


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


def test_every_problem_is_computed_by_a_peer_and_timed():
    found = measure_ops(torch.device("cpu"), edges=8, rounds=1)
    # Sums over neighbors have no second derivatives, and lists of neighbors no gradient.
    kinds = 3 * len(PROBLEMS) - 3
    assert len(found["microseconds"]) == kinds
    assert found["failures"] == []
    for name, times in found["microseconds"].items():
        assert len(times) == 2 or name.startswith("neighbor_list"), name
        assert "ours" in times
        assert all(t > 0 for t in times.values())


def test_different_results_are_not_timed():
    calls = {"ours": lambda x: x, "theirs": lambda x: x + 1e-2}
    with pytest.raises(AssertionError):
        measure({}, "problem", calls, [torch.ones(3, requires_grad=True)], CPU, rounds=1)
