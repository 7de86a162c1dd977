"""Times of accelerated layers."""

import time

import pytest
import torch
from e3nn import nn as enn
from e3nn import o3
from torch import nn

from equigeo.interop import accelerate
from equigeo.interop import report as layer_speed
from equigeo.interop.report import LayerSpeed, measure_layers


def test_every_accelerated_layer_is_timed_and_left_alone():
    layers = (o3.Linear("4x0e+4x1o", "4x0e+4x1o"), enn.BatchNorm("4x0e+4x1o"), nn.Identity())
    model = nn.Sequential(*layers)
    assert measure_layers(model) == []
    report = accelerate(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    speeds = measure_layers(model, rows=16)
    assert {speed.path for speed in speeds} == {note.path for note in report.replaced} == {"0", "1"}
    assert all(speed.before > 0 and speed.after > 0 for speed in speeds)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_slower_way_of_before_is_seen(monkeypatch):
    model = nn.Sequential(o3.Linear("4x0e", "4x0e"))
    accelerate(model)
    original = type(model[0]).original

    def slowed(self, *arguments):
        time.sleep(0.01)
        return original(self, *arguments)

    monkeypatch.setattr(type(model[0]), "original", slowed)
    monkeypatch.setattr(layer_speed, "_REPETITIONS", 3)
    (found,) = measure_layers(model, rows=4)
    assert found.before > 0.01
    assert found.before > found.after


def test_the_speedup_is_the_ratio():
    assert LayerSpeed("a", 0.003, 0.002).speedup == pytest.approx(1.5)
