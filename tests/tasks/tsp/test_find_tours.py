from __future__ import annotations

import torch

from equigeo.tasks.tsp.find_tours import find_tours
from tests.tasks.tsp.small_model import small


def test_instances_are_solved_some_at_a_time(monkeypatch):
    model, cities = small(), torch.rand(9, 6, 2)
    whole = find_tours(model, cities, every_start=True)
    monkeypatch.setitem(find_tours.__globals__, "_AT_ONCE", 200)
    parts = find_tours(model, cities, every_start=True)
    assert torch.equal(parts.order, whole.order)
    assert parts.flagged.shape == (9,)
    assert model.training
