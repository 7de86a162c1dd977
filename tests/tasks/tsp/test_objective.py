"""The gradient of tours: that of the expected length."""

from __future__ import annotations

import pytest
import torch

from equigeo.tasks.tsp.objective import PolicyGradient
from equigeo.training.labelled_source import LabelledBatch
from tests.tasks.tsp.small_model import small


def test_the_gradient_is_that_of_the_expected_length():
    """Three cities after the first: all six tours from each start are enumerated by sampling."""
    torch.manual_seed(0)
    model = small().double().eval()
    cities = torch.rand(1, 4, 2, dtype=torch.float64)
    weight = model.decoder.project.weight

    starts = torch.arange(4).repeat_interleave(400)[None]
    drawn = model(cities, starts, sample=True)
    orders, first = {}, []
    for i, order in enumerate(drawn.order[0].tolist()):
        if orders.setdefault(tuple(order), i) == i:
            first.append(i)
    assert len(first) == 24  # every tour was drawn
    expected = (drawn.log_prob[0, first].exp() * drawn.length[0, first]).sum() / 4
    want = torch.autograd.grad(expected, weight)[0]

    number = 20_000
    batch = LabelledBatch(cities.expand(number, -1, -1), torch.zeros(number), number)
    loss, length = PolicyGradient().sums(model, batch)
    got = torch.autograd.grad(loss / number, weight)[0]
    four_errors = 4 * drawn.length.std().item() / number**0.5
    assert length.item() / number == pytest.approx(expected.item(), abs=four_errors)
    # the baseline holds a quarter of the tour itself, and the deviation is a factor
    cosine = torch.nn.functional.cosine_similarity(got.flatten(), want.flatten(), 0)
    assert cosine > 0.98


def test_a_batch_of_equal_tours_has_no_gradient():
    model = small()
    batch = LabelledBatch(torch.rand(4, 3, 2), torch.zeros(4), 4)  # one tour, whatever its start
    loss, _ = PolicyGradient().sums(model, batch)
    loss.backward()
    assert all(p.grad.abs().max() < 0.02 for p in model.parameters())
