import math

import pytest
import torch

from tests.gpu import op_rows
from tests.gpu.op_rows import check_ops

pytestmark = pytest.mark.full
CPU = torch.device("cpu")
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
