"""How much faster the accelerated layers of a model are, each on its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import nn

from equigeo.interop.accelerated import Accelerated

_REPETITIONS = 7  # of both ways, in turn: others that use the machine meet both


@dataclass(frozen=True)
class LayerSpeed:
    """Times of one layer.

    Parameters
    ----------
    path : str
        Its name in the model, "" for the model itself.
    before, after : float
        Seconds of a forward pass in the way of before, and with the ops of this library; medians.

    Examples
    --------
    >>> LayerSpeed("layers.0", 0.004, 0.001).speedup
    4.0
    """

    path: str
    before: float
    after: float

    @property
    def speedup(self) -> float:
        """How many times as fast it is."""
        return self.before / self.after


def measure_layers(model: nn.Module, rows: int = 1024) -> list[LayerSpeed]:
    """Time every accelerated layer of a model against what it was, on random features.

    Forward passes alone, without gradients, on the device of each layer. A layer says nothing of a
    model in which other things take the time.

    Parameters
    ----------
    model : Module
        After :func:`equigeo.interop.accelerate`; left as it is.
    rows : int
        Samples, or edges, of the features.

    Examples
    --------
    >>> from e3nn import o3
    >>> from equigeo.interop import accelerate
    >>> model = nn.Sequential(o3.Linear("4x0e + 4x1o", "8x0e + 8x1o"))
    >>> _ = accelerate(model)
    >>> [speed.path for speed in measure_layers(model, rows=8)]
    ['0']
    """
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
