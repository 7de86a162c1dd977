"""Which device trains."""

from __future__ import annotations

import pytest
import torch

from equigeo.training.loop.chosen_device import count_gpus, training_on


def test_a_cpu_is_taken_where_there_are_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert count_gpus() == 2
    with training_on("cpu"):
        assert count_gpus() == 0
        with training_on("cuda"):
            assert count_gpus() == 2
        assert count_gpus() == 0
    with pytest.raises(RuntimeError, match="x"), training_on("cpu"):
        raise RuntimeError("x")
    assert count_gpus() == 2


def test_what_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="no GPU, got 'cuda'"), training_on("cuda"):
        pass
    with pytest.raises(ValueError, match="one of auto, cpu, cuda, got 'tpu'"), training_on("tpu"):
        pass
