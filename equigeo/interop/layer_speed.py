"""Speed-ups of the accelerated layers of a model, layer by layer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import nn

from equigeo.interop.accelerated import Accelerated

_REPETITIONS = 7  # alternating, so that other load affects both


@dataclass(frozen=True)
class LayerSpeed:
    """Forward times of one layer."""

    path: str  # name in the model, "" for the model itself
    before: float  # seconds of the original forward, median
    after: float  # seconds with the ops of this library, median

    @property
    def speedup(self) -> float:
        """Return the ratio of both times."""
        return self.before / self.after


def measure_layers(
    model: nn.Module,
    rows: int = 1024,  # number of samples or edges
) -> list[LayerSpeed]:
    """Time the forward pass of every accelerated layer against its original on random features."""
    found = [(path, m) for path, m in model.named_modules() if isinstance(m, Accelerated)]
    return [_measure(path, module, rows) for path, module in found]


def _measure(path: str, module: Any, rows: int) -> LayerSpeed:
    arguments = module.example(rows)
    before, after = [], []
    with torch.no_grad(), module.unchanged():
        for repetition in range(_REPETITIONS + 1):
            pair = _seconds(module.original, arguments), _seconds(module.forward, arguments)
            if repetition:  # the first compiles, plans and allocates
                before.append(pair[0])
                after.append(pair[1])
    return LayerSpeed(path, median(before), max(median(after), 1e-9))


def _seconds(call: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    _wait(arguments)
    start = time.perf_counter()
    call(*arguments)
    _wait(arguments)
    return time.perf_counter() - start


def _wait(arguments: tuple[Any, ...]) -> None:
    if any(isinstance(x, torch.Tensor) and x.is_cuda for x in arguments):
        torch.cuda.synchronize()
