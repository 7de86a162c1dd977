"""The objective of pairs of class and direction."""

import torch
from torch import nn
from torch.nn import functional as F

from equigeo.tasks.pointcloud.objective import UprightCrossEntropy
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.labelled_source import LabelledBatch
from equigeo.training.recipe import Recipe

LABELS = torch.tensor([0] * 6 + [1] * 3 + [2])


def _recipe(weight):
    return Recipe(1, 1, 1e-3, label_smoothing=0.1, logit_adjustment=weight)


def test_pairs_of_class_and_direction_are_one_classification():
    class Pairs(nn.Module):
        def pairs(self, x):
            return x.unflatten(1, (3, 6)), torch.arange(10) % 6

    inputs = torch.randn(10, 18, generator=torch.Generator().manual_seed(1))
    batch = LabelledBatch(inputs, LABELS, 10)
    objective = UprightCrossEntropy(CrossEntropy.of(_recipe(0.5), LABELS, 3))
    loss, right = objective.sums(Pairs(), batch)
    shares = torch.tensor([0.6, 0.3, 0.1]).repeat_interleave(6)
    expected = F.cross_entropy(
        inputs + 0.5 * shares.log(),
        6 * LABELS + torch.arange(10) % 6,
        label_smoothing=0.1,
        reduction="sum",
    )
    torch.testing.assert_close(loss, expected)
    classes = inputs.exp().unflatten(1, (3, 6)).sum(-1)
    assert right == (classes.argmax(1) == LABELS).sum()
