from __future__ import annotations

import torch
from torch import nn

from equigeo.training.loop.weight_average import WeightAverage


def test_average_follows_its_recurrence_and_copies_integers():
    norm, average = nn.BatchNorm1d(1), WeightAverage(0.5)
    expected = None
    for t in range(1, 20):
        with torch.no_grad():
            norm.weight.fill_(float(t))
            norm.num_batches_tracked.fill_(t)
        average.update(norm)
        decay = min(0.5, (1 + t) / (10 + t))
        expected = float(t) if expected is None else decay * expected + (1 - decay) * t
    torch.testing.assert_close(average.state["weight"], torch.tensor([expected]))
    assert average.state["num_batches_tracked"] == 19


def test_a_restored_average_continues_bitwise():
    torch_rng = torch.Generator().manual_seed(0)
    layer, whole = nn.Linear(3, 3), WeightAverage(0.9)
    for step in range(6):
        if step == 3:
            part = WeightAverage(0.9)
            part.load_state_dict(whole.state_dict())
        with torch.no_grad():
            layer.weight.copy_(torch.randn(3, 3, generator=torch_rng))
        whole.update(layer)
        if step >= 3:
            part.update(layer)
    assert torch.equal(whole.state["weight"], part.state["weight"])
