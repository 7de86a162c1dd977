from __future__ import annotations

import math

import pytest
import torch

from tests.gpu import op_rows
from tests.gpu.op_rows import check_ops, share

CPU = torch.device("cpu")
ROW = "gather_sum | odd sizes"


def test_rows_of_this_device_are_right():
    found = check_ops(CPU, [ROW, "channelwise_product, odd | small"])
    assert found["failures"] == []
    row = found["rows"]["gather_sum"]
    assert row["cases"] == 2
    assert 0 <= row["largest share of the tolerance"] <= 1
    assert found["rows"]["channelwise_product, odd"]["cases"] == 3  # bfloat16 as well


@pytest.mark.parametrize(("wrong", "told"), [(1e-3, "times what is tolerated"), (math.nan, "inf")])
def test_wrong_numbers_are_failures(monkeypatch, wrong, told):
    right = op_rows.results

    def moved(*arguments):
        found = right(*arguments)
        found[-1].flatten()[0] += wrong
        return found

    monkeypatch.setattr(op_rows, "results", moved)
    first, second = check_ops(CPU, [ROW])["failures"]
    assert first.startswith(f"{ROW} | torch.float32: ")
    assert told in second


def test_bits_that_change_are_failures(monkeypatch):
    right, calls = op_rows.results, []

    def other(*arguments):
        found = right(*arguments)
        calls.append(1)
        first = found[0].view(-1)[:1]
        if len(calls) % 2:
            first.copy_(torch.nextafter(first, torch.full_like(first, 9)))
        return found

    monkeypatch.setattr(op_rows, "results", other)
    found = check_ops(CPU, [ROW])
    told = [text.split(": ")[1] for text in found["failures"]]
    assert told == ["two runs give different bits"] * 2
    assert len(found["rows"]["gather_sum"]["unequal"]) == 2


def test_an_op_that_raises_is_a_failure_and_the_others_go_on(monkeypatch):
    def refuse(*arguments):
        raise RuntimeError("CUDA kernel launch failed")

    monkeypatch.setattr(op_rows, "results", refuse)
    found = check_ops(CPU, [ROW])
    assert found["failures"] == [
        f"{ROW} | torch.{name}: CUDA kernel launch failed" for name in ("float32", "float64")
    ]


def test_half_precision_may_be_off_by_one_rounding():
    want = torch.tensor([1.0, 3.0], dtype=torch.float64) / 3
    assert share(want.bfloat16(), want, 1) < 1 < share((1.02 * want).bfloat16(), want, 1)
    assert share(torch.zeros(0), torch.zeros(0), 1) == 0
