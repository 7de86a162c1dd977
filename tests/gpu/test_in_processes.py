"""Rows in processes: the same as in one, and what becomes of a process that ends or hangs."""

from __future__ import annotations

import pytest
import torch

from tests.gpu.in_processes import check_rows, in_process
from tests.gpu.layer_rows import layer_names
from tests.gpu.op_rows import op_names

CPU = torch.device("cpu")


def test_processes_find_what_one_process_finds():
    select = ["gather_sum | small", "gather_sum | one hub"]
    assert check_rows("ops", CPU, select, jobs=2) == check_rows("ops", CPU, select, jobs=1)


@pytest.mark.parametrize(("part", "name"), [("ops", "gather_sum"), ("layers", "nn.Linear")])
def test_parts_know_their_rows(part, name):
    names = {"ops": op_names, "layers": layer_names}[part]()
    assert name in names
    assert len(names) == len(set(names))


def test_a_process_that_ends_or_hangs_is_a_failure_of_its_rows(tmp_path):
    unknown = in_process("nothing", CPU, ["gather_sum"], tmp_path / "a.json", limit=60)
    assert unknown["rows"] == {}
    assert unknown["failures"][0].startswith("gather_sum: the process ended with 1: ")
    slow = in_process("ops", CPU, ["gather_sum", "radial"], tmp_path / "b.json", limit=0.01)
    assert slow["failures"] == ["gather_sum, radial: the process took more than 0.01 s"]
