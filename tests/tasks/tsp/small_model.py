"""A small model of tours whose initial weights are the same everywhere."""

from __future__ import annotations

import torch

from equigeo.mds import AttentionModel, AttentionModelConfig
from equigeo.training.random_state import isolated_streams


def small(inputs="mds"):
    with isolated_streams():
        torch.manual_seed(0)
        return AttentionModel(AttentionModelConfig(inputs, 16, 2, 2, 32))
