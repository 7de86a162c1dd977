"""A running average of weights.

On its own because it is a method of its own, which the loop only calls.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class WeightAverage:
    r"""Exponential running average of a module's parameters and buffers.

    .. math:: a_t = d_t\, a_{t-1} + (1 - d_t)\, w_t, \qquad d_t = \min(d, (1 + t) / (10 + t))

    The early, smaller decay forgets the initial weights. Integer buffers are copied.

    Parameters
    ----------
    decay : float
        The limit d, in [0, 1).

    Examples
    --------
    >>> average, layer = WeightAverage(0.9), nn.Linear(1, 1)
    >>> average.update(layer)
    >>> torch.equal(average.state["weight"], layer.weight)
    True
    """

    def __init__(self, decay: float) -> None:
        self._decay = decay
        self._updates = 0
        self.state: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Take the module's present weights into the average."""
        current = module.state_dict()
        if not self.state:
            self.state = {name: value.clone() for name, value in current.items()}
        self._updates += 1
        decay = min(self._decay, (1 + self._updates) / (10 + self._updates))
        for name, value in current.items():
            self.state[name] = self.state[name].to(value.device)  # a resumed one is on the CPU
            if value.is_floating_point():
                self.state[name].lerp_(value, 1 - decay)
            else:
                self.state[name].copy_(value)

    def state_dict(self) -> dict[str, Any]:
        """Give what ``load_state_dict`` restores."""
        return {"updates": self._updates, "state": self.state}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue a saved average."""
        self._updates = int(saved["updates"])
        self.state = {name: value.clone() for name, value in saved["state"].items()}
