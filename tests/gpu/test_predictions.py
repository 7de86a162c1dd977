from __future__ import annotations

import json
from types import SimpleNamespace

import torch

from bench.op_calls import all_calls, call_on
from tests.gpu.predictions import (
    MODEL,
    base_name,
    compare_kernels,
    joined,
    per_call,
    predicted,
)

CPU = torch.device("cpu")
KERNEL = "void equigeo::(anonymous namespace)::{}<float, 4>(equigeo::Plan<float>, float const*)"


def test_the_calls_of_the_model_can_be_made():
    tables, calls = json.loads(MODEL.read_text())["tables"], all_calls()
    assert set(tables) <= set(calls)
    for op, arguments, results in calls.values():
        made = call_on(CPU, op, arguments)()
        made = made if isinstance(made, tuple) else (made,)
        assert [x.shape for x in made] == [x.shape for x in results]


def test_kernels_of_the_model_have_predictions():
    for table in json.loads(MODEL.read_text())["tables"].values():
        assert all(time > 0 for time in predicted(table["kernels"]).values())


def test_names_of_the_compiler_and_of_the_simulator_are_joined():
    assert base_name(KERNEL.format("sum_rows")) == base_name("sum_rows<float>") == "sum_rows"
    events = [
        SimpleNamespace(key=KERNEL.format("sum_rows"), self_device_time_total=40.0),
        SimpleNamespace(key=KERNEL.format("sum_rows"), self_device_time_total=20.0),
        SimpleNamespace(key="Memset (Device)", self_device_time_total=1.0),
    ]
    times = per_call(events, calls=20)
    bounds = predicted([{"kernel": "sum_rows<float>", "microseconds on an H100 at least": 1.5}])
    assert joined(bounds, times) == {
        "sum_rows": {"predicted": 1.5, "measured": 3.0, "measured / predicted": 2.0}
    }


def test_nothing_is_measured_without_a_card():
    assert compare_kernels(CPU) == {}
