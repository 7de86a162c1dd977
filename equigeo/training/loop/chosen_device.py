"""Selection of the training device for a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

_CHOSEN: ContextVar[str] = ContextVar("_CHOSEN", default="auto")
_DEVICES = ("auto", "cpu", "cuda")


@contextmanager
def training_on(device: str) -> Iterator[None]:
    """Select the training device for a block: "auto" (a GPU if there is one), "cpu" or "cuda"."""
    if device not in _DEVICES:
        raise ValueError(f"device must be one of {', '.join(_DEVICES)}, got {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be auto or cpu where PyTorch finds no GPU, got 'cuda'")
    before = _CHOSEN.set(device)
    try:
        yield
    finally:
        _CHOSEN.reset(before)


def count_gpus() -> int:
    """Return the number of GPUs for training; 0 selects the CPU."""
    may = _CHOSEN.get() != "cpu" and torch.cuda.is_available()
    return torch.cuda.device_count() if may else 0
