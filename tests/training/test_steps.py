"""Objectives, gradients, random streams and signals of training."""

import os
import random
import signal
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from equigeo.training import exit_on_sigterm
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.known_gradients import known_gradients
from equigeo.training.labelled_source import LabelledBatch
from equigeo.training.random_state import derived_generator, enter_stream, isolated_streams
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


def test_the_gradients_are_those_that_were_given_times_what_arrives():
    x, y = torch.ones(3, requires_grad=True), torch.ones((), requires_grad=True)
    slopes = [torch.arange(3.0), torch.tensor(7.0)]
    value = known_gradients(torch.tensor(2.0), [x, y], slopes)
    assert value.item() == 2.0
    (value * 3).backward()
    assert x.grad.tolist() == [0.0, 3.0, 6.0]
    assert y.grad.item() == 21.0


def test_there_are_no_gradients_of_gradients():
    x = torch.ones(3, requires_grad=True)
    value = known_gradients(torch.tensor(2.0), [x], [torch.ones(3)])
    (slope,) = torch.autograd.grad(value, x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(slope.sum(), x)


def _draw():
    return float(torch.rand(())), float(np.random.rand()), random.random()  # noqa: NPY002


def test_a_stream_depends_on_its_position_alone():
    with isolated_streams():
        enter_stream(0, "epoch", 1, 0)
        first = _draw()
        enter_stream(0, "epoch", 1, 0)
        assert _draw() == first
        for position in [(1, "epoch", 1, 0), (0, "model", 1, 0), (0, "epoch", 2, 0)]:
            enter_stream(*position)
            assert all(a != b for a, b in zip(_draw(), first, strict=True))


def test_global_generators_are_left_as_found():
    states = torch.get_rng_state(), np.random.get_state()[1], random.getstate()  # noqa: NPY002
    with isolated_streams():
        enter_stream(3, "epoch", 1)
        _draw()
    assert torch.equal(states[0], torch.get_rng_state())
    assert np.array_equal(states[1], np.random.get_state()[1])  # noqa: NPY002
    assert states[2] == random.getstate()


def test_seeds_of_any_size_have_a_stream():
    draws = {float(torch.rand((), generator=derived_generator(s, "x"))) for s in (0, 1, 2**80)}
    assert len(draws) == 3


def test_the_signal_becomes_an_exit_status():
    with pytest.raises(SystemExit) as caught, exit_on_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_of_the_program_stays():
    seen = []
    signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
    try:
        with exit_on_sigterm():
            os.kill(os.getpid(), signal.SIGTERM)
        assert seen == [1]
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_other_threads_change_nothing():
    seen = []

    def run():
        with exit_on_sigterm():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]
