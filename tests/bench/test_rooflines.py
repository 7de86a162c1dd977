"""Kernels beside the bounds of the machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.op_calls import CASES, ON_THE_CPU, Size, all_calls
from bench.rooflines import ARITHMETIC, BANDWIDTH, summarized
from equigeo.ops.runtime.declare import SCHEMAS
from tests.bench.test_arithmetic import WITHOUT_KERNELS


def test_every_op_is_called():
    called = {op for op, _, _ in all_calls(Size(8, 2, 16), {**CASES, **ON_THE_CPU}).values()}
    assert called == set(SCHEMAS) - WITHOUT_KERNELS


@pytest.mark.parametrize(
    ("size", "by", "share"), [(4e9, "bandwidth", 0.5), (1e9, "arithmetic", 0.2)]
)
def test_the_bound_is_what_takes_longer(size, by, share):
    row = {"bytes": size, "multiply-adds": 2e10, "seconds": {1: [1.0, 1.5, 9.0], 2: [1.0] * 3}}
    found = summarized(row, {BANDWIDTH: 8.0, ARITHMETIC: 100.0})
    assert found["bound by"] == by
    assert found[f"share of {by}"] == pytest.approx(share)
    assert found["threads against one"] == 1.5
    assert found["efficiency"] == 0.75
    assert found["microseconds"] == {1: 1.5e6, 2: 1e6}


def test_a_run_keeps_machine_and_rows(tmp_path):
    output = tmp_path / "rooflines.json"
    command = [sys.executable, "-m", "bench.rooflines", "--edges", "8", "--rounds", "1"]
    root = Path(__file__).parents[2]
    subprocess.run([*command, "--output", str(output)], check=True, cwd=root, timeout=1200)
    record = json.loads(output.read_text())
    assert all(bound > 0.1 for bounds in record["machine"].values() for bound in bounds.values())
    ops = {row["op"].partition(",")[0] for row in record["rows"]}
    assert ops == set(SCHEMAS) - WITHOUT_KERNELS
    assert all(set(row["seconds"]) == {"1", str(record["threads"])} for row in record["rows"])
