"""Training of models of tours: it learns, resumes exactly, and measures what it claims."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from equigeo.tasks.tsp import (
    TravellingSalesman,
    validation_instances,
)
from equigeo.tasks.tsp import validation_instances as function
from equigeo.tasks.tsp.find_tours import find_tours
from equigeo.training import time_limit
from equigeo.training.random_state import isolated_streams
from tests.tasks.tsp.small_model import small


@pytest.fixture(autouse=True)
def _few(monkeypatch, tmp_path):
    monkeypatch.setitem(function.__globals__, "_NUMBER", 50)
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))


def test_training_shortens_tours(trained):
    for inputs, result in trained.items():
        with isolated_streams():
            before = find_tours(small(inputs), validation_instances(8)).length.mean().item()
        last = result.history[-1]
        assert last["train_length"] < result.history[0]["train_length"]
        assert last["greedy_length"] < 0.9 * before
        assert last["multistart_length"] < last["greedy_length"]


def test_any_number_of_sessions_ends_with_the_weights_of_one(config, tmp_path):
    whole = TravellingSalesman().train(config, tmp_path / "whole", model=small())
    part = TravellingSalesman().train(
        config, tmp_path / "parts", model=small(), callbacks=time_limit(1e-9)
    )
    while len(part.history) < 2:
        part = TravellingSalesman().train(
            config, tmp_path / "parts", model=small(), resume=True, callbacks=time_limit(1e-9)
        )
    left, right = part.model.state_dict(), whole.model.state_dict()
    assert all(torch.equal(left[name], right[name]) for name in right)
    for first, second in zip(part.history, whole.history, strict=True):
        assert {**first, "seconds": 0} == {**second, "seconds": 0}
    other = TravellingSalesman().train(replace(config, seed=1), tmp_path / "other", model=small())
    assert not torch.equal(other.model.encoder.first.weight, whole.model.encoder.first.weight)


def test_divergence_is_one_error(config, tmp_path):
    model = small()
    with torch.no_grad():
        model.decoder.mean.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="the loss of epoch 1 is nan: training diverged"):
        TravellingSalesman().train(config, tmp_path / "run", model=model)
    assert not (tmp_path / "run" / "model.ckpt").exists()
