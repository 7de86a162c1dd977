from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from equigeo._text import shorten
from equigeo.nn.brief import brief_fields, shown

CYCLE: list[Any] = []
CYCLE.append(CYCLE)
SHARED: list[Any] = []
for _ in range(60):
    SHARED = [SHARED, SHARED]


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, [1] * 10**6, 10**10_000, [10**10_000], CYCLE, SHARED, {"a": SHARED},
     torch.zeros(1).expand(10**12), object(), [["a" * 1000] * 1000] * 1000],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_whatever_it_is_fits_in_a_message(value):
    assert len(shown(value)) <= 80
    assert "\n" not in shown(value)


def test_short_values_are_as_python_writes_them():
    for value in (None, True, 3, 2.5, float("inf"), "a", [1, "b"], (1,), {"a": 1}):
        assert shown(value) == repr(value)
    assert shown(Path("a/b")) == "'a/b'"


def test_a_long_text_keeps_both_ends():
    assert shorten("0123456789", 10) == "0123456789"
    assert shorten("0123456789a", 10) == "0123...89a"
    assert shorten("0123456789", 4) == "0..."


def test_a_dataclass_on_one_line():
    @dataclass
    class Result:
        values: Any
        model: Any = None
        __repr__ = brief_fields

    assert repr(Result([1, 2])) == "Result(values=[1, 2], model=None)"
    long = repr(Result(["x" * 1000] * 1000, torch.nn.Linear(3, 3)))
    assert len(long) < 250
    assert long.endswith("of 1000, model=<Linear>)")
