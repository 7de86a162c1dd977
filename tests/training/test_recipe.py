import pytest
import torch
from torch import nn

from equigeo.testing import tolerance
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
    assert last == pytest.approx(0, abs=tolerance(torch.float64, 30)["atol"])  # step by step


def test_one_cycle_peaks_at_the_given_rate():
    rates, last = _rates("one_cycle")
    assert max(rates) == pytest.approx(0.1)
    assert last < rates[0] < 0.01
    assert _rates("constant") == ([0.1] * 30, 0.1)


def test_the_decay_of_adam_is_a_penalty_and_that_of_adamw_is_not():
    for name, expected in (("adam", 0.9), ("adamw", 1 - 0.1 * 0.5)):
        weight = nn.Parameter(torch.ones(1))
        recipe = Recipe(1, 1, 0.1, optimizer=name, schedule="constant", weight_decay=0.5)
        optimizer, _ = build_optimizer([weight], recipe, 1)
        weight.grad = torch.zeros(1)
        optimizer.step()  # adam moves by the rate in the direction of the penalty's gradient
        assert weight.item() == pytest.approx(expected, rel=tolerance(torch.float32)["rtol"])


def test_recipes_of_earlier_versions_mean_what_they_did():
    recipe = Recipe(3, 16, 1e-3, jitter=0.05)
    values = recipe.to_dict()
    for name in ("stretch", "resolutions", "update_bn", "minutes", "warmup", "clip_norm"):
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


def test_the_warm_cosine_rises_and_falls_to_a_hundredth():
    recipe = Recipe(3, 1, 0.1, schedule="warm_cosine", warmup=5)
    optimizer, scheduler = build_optimizer([nn.Parameter(torch.zeros(1))], recipe, 10)
    rates = []
    for _ in range(30):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates[0] == pytest.approx(0.1 / 5)
    assert rates[:5] == sorted(rates[:5])
    assert rates[5:] == sorted(rates[5:], reverse=True)
    assert rates[15] == pytest.approx(0.1 * (0.01 + 0.99 / 2))
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 / 100)


def test_a_rate_by_the_clock_depends_on_elapsed_time_alone():
    clock = [0.0]
    recipe = Recipe(10**5, 1, 0.1, schedule="warm_cosine", minutes=2.0)
    optimizer, scheduler = build_optimizer(
        [nn.Parameter(torch.zeros(1))], recipe, 10, lambda: clock[0]
    )
    for seconds, share in ((0.0, 1.0), (60.0, 0.505), (120.0, 0.01), (500.0, 0.01)):
        clock[0] = seconds
        optimizer.step()
        scheduler.step()
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * share)


def test_runs_end_by_epochs_or_by_the_clock():
    recipe = Recipe(3, 16, 1e-3)
    assert (recipe.length, recipe.progress(1, 9.0)) == ("3 epochs", "1 of 3 epochs")
    assert [recipe.is_done(k, 1e9) for k in (2, 3)] == [False, True]
    recipe = Recipe(10**5, 16, 1e-3, schedule="constant", minutes=2.0)
    assert (recipe.length, recipe.progress(7, 90.0)) == ("2 minutes", "1.5 of 2 minutes")
    assert [recipe.is_done(7, s) for s in (119.9, 120.0)] == [False, True]
    with pytest.raises(
        ValueError, match="a run of 2 minutes must have the schedule warm_cosine or"
    ):
        Recipe(3, 16, 1e-3, minutes=2.0)
