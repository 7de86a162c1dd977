"""What losses and measures are divided by: the samples that count."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from equigeo.tasks.mesh_segmentation import SegmentationConfig
from equigeo.tasks.mesh_segmentation.objective import PADDING, FaceCrossEntropy
from equigeo.training.labelled_source import DividedBatch, LabelledBatch
from equigeo.training.loop.optimization import Optimization

NONE = [-1, -1]
LOGITS = [[9.0, 0.0], [0.0, 9.0]]  # of the two faces of every mesh


class Slope(nn.Module):
    """Logits times one weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, logits):
        return self.weight * logits


def batch_of(*rows):
    faces = sum(label != PADDING for row in rows for label in row)
    assert faces == 2 * len(rows)
    return LabelledBatch(torch.tensor(LOGITS * len(rows)), torch.tensor(rows), len(rows))


def step(batch):
    """Loss and slope of a step, and mean loss and measure of the epoch."""
    module = Optimization(Slope(), SegmentationConfig("memory"), FaceCrossEntropy(), 1)
    module._trainer = SimpleNamespace(world_size=1, current_epoch=0, global_rank=0)
    loss = module.training_step(batch, 0)
    loss.backward()
    return [loss.item(), module.model.weight.grad.item(), *module.tally()]


def test_meshes_without_a_labelled_face_are_in_no_mean():
    alone = step(batch_of([0, 1]))
    assert alone[3] == 1.0
    assert step(batch_of([0, 1], NONE)) == alone
    divided = DividedBatch(
        tuple(LabelledBatch(b.inputs, b.labels, 3) for b in map(batch_of, ([0, 1], NONE, NONE)))
    )
    assert step(divided) == alone
    assert step(batch_of([0, 1], [0, 0]))[3] == pytest.approx(0.75)


def test_a_step_in_which_nothing_counts_has_loss_zero():
    assert step(batch_of(NONE, NONE)) == [0.0] * 4
