from __future__ import annotations

import pytest
import torch

from tests.ops import run_simulated
from tests.ops.run_simulated import cases, compare, environment, record

ROW = "gather_sum | odd sizes"
ROWS = [ROW]


def test_every_row_has_cases_of_every_dtype():
    names = [name for name, *_ in cases()]
    assert len(names) == len(set(names)) > 1000
    assert sum("bfloat16" in name for name in names) > 100
    assert [name for name, *_ in cases(ROWS)] == [
        f"{ROW} | torch.float32",
        f"{ROW} | torch.float64",
    ]


def test_a_record_agrees_with_itself():
    first = record(ROWS)
    assert compare(first, [record(ROWS), record(ROWS)], ROWS) == sum(map(len, first.values())) == 6


def test_another_value_is_named():
    first, other = record(ROWS), record(ROWS)
    other[f"{ROW} | torch.float64"][0][0, 0] += 1e-3
    with pytest.raises(AssertionError, match=r"gather_sum \| odd sizes \| torch.float64"):
        compare(first, [other], ROWS)


def test_another_bit_in_another_order_is_named():
    first, other = record(ROWS), record(ROWS)
    value = other[f"{ROW} | torch.float32"][0]
    value[0, 0] = torch.nextafter(value[0, 0], torch.tensor(9.0))
    assert compare(first, [other], ROWS)
    with pytest.raises(AssertionError, match="result 0, in another order"):
        compare(first, [first, other], ROWS)


def test_loaded_kernels_are_checked_against_a_record():
    found = record(ROWS)
    assert run_simulated.check(found, ROWS) == 2
    found[f"{ROW} | torch.float64"][2][0, 0] += 1
    with pytest.raises(AssertionError, match=r"torch\.float64"):
        run_simulated.check(found, ROWS)


def test_sanitizers_are_loaded_before_python(tmp_path):
    variables = environment(tmp_path, "address", "7")
    assert variables["EQUIGEO_SIMULATE_ORDER"] == "7"
    assert "libasan.so" in variables["LD_PRELOAD"]
    assert "LD_PRELOAD" not in environment(tmp_path, "thread", "7")


def test_orders_and_checks_are_all_run(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(
        run_simulated, "record_elsewhere", lambda file, select, variables: ran.append(file.stem)
    )
    files = run_simulated.record_all(tmp_path, [], 2)
    assert sorted(ran) == sorted(file.stem for file in files)
    assert len(ran) == 1 + 2 * 3
