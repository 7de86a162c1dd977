"""The objective of classification."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.labelled_source import LabelledBatch
from equigeo.training.recipe import Recipe

LABELS = torch.tensor([0] * 6 + [1] * 3 + [2])


INPUTS = torch.randn(10, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


BATCH = LabelledBatch(INPUTS, LABELS, 10)


def _recipe(weight):
    return Recipe(1, 1, 1e-3, label_smoothing=0.1, logit_adjustment=weight)


def test_without_adjustment_it_is_the_plain_loss():
    loss, right = CrossEntropy.of(_recipe(0.0), LABELS, 3).sums(nn.Identity(), BATCH)
    expected = F.cross_entropy(INPUTS, LABELS, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(loss, expected)
    assert right == (INPUTS.argmax(1) == LABELS).sum()


def test_adjustment_adds_the_logarithm_of_shares_to_the_loss_alone():
    loss, right = CrossEntropy.of(_recipe(0.5), LABELS, 3).sums(nn.Identity(), BATCH)
    shares = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    expected = F.cross_entropy(
        INPUTS + 0.5 * shares.log(), LABELS, label_smoothing=0.1, reduction="sum"
    )
    torch.testing.assert_close(loss, expected)
    assert right == (INPUTS.argmax(1) == LABELS).sum()


@pytest.mark.parametrize(("weight", "preference"), [(1.0, False), (0.0, True)])
def test_a_model_that_sees_nothing_learns_no_preference_with_weight_one(weight, preference):
    logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    recipe = Recipe(1, 1, 1e-3, logit_adjustment=weight)
    objective = CrossEntropy.of(recipe, LABELS, 3)
    objective.sums(lambda _: logits.expand(10, 3), BATCH)[0].backward()
    assert (logits.grad.abs().max().item() > 1e-12) is preference


def test_a_class_without_samples_counts_as_if_it_had_one():
    objective = CrossEntropy.of(_recipe(1.0), torch.tensor([0, 0, 0]), 2)
    assert objective.adjustment == pytest.approx((torch.tensor([0.75, 0.25]).log()).tolist())
