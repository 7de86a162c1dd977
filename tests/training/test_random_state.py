from __future__ import annotations

import random

import numpy as np
import torch

from equigeo.training.random_state import derived_generator, enter_stream, isolated_streams


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
