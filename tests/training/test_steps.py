import os
import random
import signal
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from equigeo.testing import tolerance
from equigeo.training import Recipe, exit_on_sigterm
from equigeo.training.config import build_optimizer
from equigeo.training.data import LabelledBatch
from equigeo.training.objective import CrossEntropy, known_gradients
from equigeo.training.process import derived_generator, enter_stream, isolated_streams
from tests.wrong_inputs import refused

LABELS = torch.tensor([0] * 6 + [1] * 3 + [2])
INPUTS = torch.randn(10, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
BATCH = LabelledBatch(INPUTS, LABELS, 10)


def _recipe(weight):
    return Recipe(1, 1, 1e-3, label_smoothing=0.1, logit_adjustment=weight)


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_adjustment_adds_the_logarithm_of_shares_to_the_loss_alone(weight):
    loss, right = CrossEntropy.of(_recipe(weight), LABELS, 3).sums(nn.Identity(), BATCH)
    logits = INPUTS + weight * torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64).log()
    expected = F.cross_entropy(logits, LABELS, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(loss, expected)
    assert right == (INPUTS.argmax(1) == LABELS).sum()


def test_a_model_that_sees_nothing_learns_no_preference_with_weight_one():
    for weight, preference in ((1.0, False), (0.0, True)):
        logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        recipe = Recipe(1, 1, 1e-3, logit_adjustment=weight)
        objective = CrossEntropy.of(recipe, LABELS, 3)
        objective.sums(lambda _, x=logits: x.expand(10, 3), BATCH)[0].backward()
        assert (logits.grad.abs().max().item() > 1e-12) is preference
    # a class without samples counts as if it had one
    objective = CrossEntropy.of(_recipe(1.0), torch.tensor([0, 0, 0]), 2)
    assert objective.adjustment == pytest.approx((torch.tensor([0.75, 0.25]).log()).tolist())


def test_known_gradients_are_multiplied_by_what_arrives_once():
    x, y = torch.ones(3, requires_grad=True), torch.ones((), requires_grad=True)
    slopes = [torch.arange(3.0), torch.tensor(7.0)]
    value = known_gradients(torch.tensor(2.0), [x, y], slopes)
    assert value.item() == 2.0
    (value * 3).backward()
    assert x.grad.tolist() == [0.0, 3.0, 6.0]
    assert y.grad.item() == 21.0
    x = torch.ones(3, requires_grad=True)
    value = known_gradients(torch.tensor(2.0), [x], [torch.ones(3)])
    (slope,) = torch.autograd.grad(value, x, create_graph=True)
    refused("does not require grad", torch.autograd.grad, slope.sum(), x, error=RuntimeError)


def _draw():
    return float(torch.rand(())), float(np.random.rand()), random.random()  # noqa: NPY002


def test_a_stream_depends_on_its_position_alone_and_global_generators_are_left_as_found():
    states = torch.get_rng_state(), np.random.get_state()[1], random.getstate()  # noqa: NPY002
    with isolated_streams():
        enter_stream(0, "epoch", 1, 0)
        first = _draw()
        enter_stream(0, "epoch", 1, 0)
        assert _draw() == first
        for position in [(1, "epoch", 1, 0), (0, "model", 1, 0), (0, "epoch", 2, 0)]:
            enter_stream(*position)
            assert all(a != b for a, b in zip(_draw(), first, strict=True))
    draws = {float(torch.rand((), generator=derived_generator(s, "x"))) for s in (0, 1, 2**80)}
    assert len(draws) == 3
    assert torch.equal(states[0], torch.get_rng_state())
    assert np.array_equal(states[1], np.random.get_state()[1])  # noqa: NPY002
    assert states[2] == random.getstate()


def test_the_signal_becomes_an_exit_status_where_the_program_has_no_handler():
    with pytest.raises(SystemExit) as caught, exit_on_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    seen = []

    def run_in_a_thread():
        with exit_on_sigterm():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run_in_a_thread)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]
    signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
    try:
        with exit_on_sigterm():
            os.kill(os.getpid(), signal.SIGTERM)
        assert seen[1:] == [1]
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _rates(schedule, **options):
    recipe = Recipe(3, 1, 0.1, schedule=schedule, **options)
    optimizer, scheduler = build_optimizer([nn.Parameter(torch.zeros(1))], recipe, 10)
    rates = []
    for _ in range(30):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return rates, optimizer.param_groups[0]["lr"]


def test_schedules_rise_and_fall_as_they_should():
    rates, last = _rates("cosine")
    assert rates[0] == 0.1
    assert rates[15] == pytest.approx(0.05)
    assert rates == sorted(rates, reverse=True)
    assert last == pytest.approx(0, abs=tolerance(torch.float64, 30)["atol"])  # step by step
    rates, last = _rates("one_cycle")
    assert max(rates) == pytest.approx(0.1)
    assert last < rates[0] < 0.01
    assert _rates("constant") == ([0.1] * 30, 0.1)
    rates, last = _rates("warm_cosine", warmup=5)
    assert rates[0] == pytest.approx(0.1 / 5)
    assert rates[:5] == sorted(rates[:5])
    assert rates[5:] == sorted(rates[5:], reverse=True)
    assert rates[15] == pytest.approx(0.1 * (0.01 + 0.99 / 2))
    assert last == pytest.approx(0.1 / 100)


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
    for name in (
        "stretch",
        "resample",
        "resolutions",
        "damaged",
        "update_bn",
        "minutes",
        "warmup",
        "clip_norm",
    ):
        del values[name]
    assert Recipe.from_dict(values) == recipe
    del values["jitter"]  # which every version has written
    refused(r"missing fields .*jitter", Recipe.from_dict, values)


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
