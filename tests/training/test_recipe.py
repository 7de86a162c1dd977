from __future__ import annotations

import pytest
import torch
from torch import nn

from equigeo.training import Recipe
from equigeo.training.recipe import build_optimizer


def _rates(schedule, epochs=3, steps=10):
    recipe = Recipe(epochs, 1, 0.1, schedule=schedule)
    optimizer, scheduler = build_optimizer([nn.Parameter(torch.zeros(1))], recipe, steps)
    rates = []
    for _ in range(epochs * steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return rates, optimizer.param_groups[0]["lr"]


def test_the_cosine_falls_over_the_whole_run_to_nothing():
    rates, last = _rates("cosine")
    assert rates[0] == 0.1
    assert rates[15] == pytest.approx(0.05)
    assert rates == sorted(rates, reverse=True)
    assert last == pytest.approx(0, abs=1e-12)


def test_one_cycle_peaks_at_the_given_rate():
    rates, last = _rates("one_cycle")
    assert max(rates) == pytest.approx(0.1, rel=1e-2)
    assert last < rates[0] < 0.01
    assert _rates("constant") == ([0.1] * 30, 0.1)


def test_the_decay_of_adam_is_a_penalty_and_that_of_adamw_is_not():
    for name, expected in (("adam", 0.9), ("adamw", 1 - 0.1 * 0.5)):
        weight = nn.Parameter(torch.ones(1))
        recipe = Recipe(1, 1, 0.1, optimizer=name, schedule="constant", weight_decay=0.5)
        optimizer, _ = build_optimizer([weight], recipe, 1)
        weight.grad = torch.zeros(1)
        optimizer.step()  # adam moves by the rate in the direction of the penalty's gradient
        assert weight.item() == pytest.approx(expected, rel=1e-4)


def test_recipes_of_earlier_versions_mean_what_they_did():
    recipe = Recipe(3, 16, 1e-3, jitter=0.05)
    values = recipe.to_dict()
    for name in ("stretch", "resolutions", "update_bn"):
        del values[name]
    assert Recipe.from_dict(values) == recipe
    del values["jitter"]  # which every version has written
    with pytest.raises(ValueError, match=r"missing fields .*jitter"):
        Recipe.from_dict(values)


@pytest.mark.parametrize(
    ("field", "value"),
    [("stretch", -0.1), ("stretch", float("nan")), ("resolutions", (0.0,)), ("resolutions", (5,))],
)
def test_augmentations_out_of_range_are_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} must be"):
        Recipe(3, 16, 1e-3, **{field: value})
