from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from equigeo.tasks.tsp import (
    TrainedTourModel,
    TravellingSalesman,
)
from equigeo.tasks.tsp import validation_instances as function
from equigeo.training import CheckpointError
from tests.tasks.tsp.small_model import small


@pytest.fixture(autouse=True)
def _few(monkeypatch, tmp_path):
    monkeypatch.setitem(function.__globals__, "_NUMBER", 50)
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))


def test_a_damaged_model_is_refused(config, tmp_path):
    TravellingSalesman().train(replace(config, instances=4), tmp_path, model=small())
    content = torch.load(tmp_path / "model.ckpt", weights_only=True)
    for change in ({"heads": 3}, {"colour": 1}):
        damaged = content | {"config": content["config"] | {"model": change}}
        torch.save(damaged, tmp_path / "model.ckpt")
        with pytest.raises(CheckpointError, match="does not fit this version's model of tours"):
            TrainedTourModel.load(tmp_path / "model.ckpt")
