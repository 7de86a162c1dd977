from __future__ import annotations

import pytest
import torch
from torch import nn

from equigeo.datasets import AffNIST, centred, load_digits
from equigeo.tasks.affnist import (
    logit_change,
)


class _Sum(nn.Module):
    """Total ink, or ink by row: one is nearly invariant, the other not at all."""

    def __init__(self, by_row, by_place=False):
        super().__init__()
        self.by_row = by_row
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, images):
        rows = images.flatten(0, 1).sum(dim=2)
        return rows if self.by_row else rows.sum(dim=1, keepdim=True)


def test_the_change_of_logits_tells_an_invariant_model_from_others(folder):
    data = AffNIST(*load_digits(folder, "train"), "train")

    class Constant(nn.Linear):
        def forward(self, images):
            return images.new_ones(len(images), 2)

    assert logit_change(Constant(1, 1), data) == 0
    ink, rows = logit_change(_Sum(False), data), logit_change(_Sum(True), data)
    assert ink < rows / 3
    assert rows > 1


def test_the_change_of_logits_follows_its_definition(folder):
    data = AffNIST(*load_digits(folder, "train"), "train")
    before = centred(data.images).float().flatten(1).sum(dim=1) / 255
    indices = torch.arange(len(data.images))
    after = data.render(indices, torch.zeros_like(indices)).float().flatten(1).sum(dim=1) / 255
    expected = (after - before).square().mean().sqrt() / before.std(correction=0)
    # sums of 1600 pixels in float32, of which differences are taken: 6e-8 * sqrt(1600) = 2.4e-6
    assert logit_change(_Sum(False), data) == pytest.approx(expected.item(), rel=1e-5)
    with pytest.raises(ValueError, match="at least 2 digits"):
        logit_change(_Sum(False), data, 1)
