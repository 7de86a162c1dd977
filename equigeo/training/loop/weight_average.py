"""Running average of weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class WeightAverage:
    """Exponential moving average of parameters and floating buffers; integer buffers are copied."""

    def __init__(
        self,
        decay: float,  # limit of the decay, in [0, 1)
    ) -> None:
        self._decay = decay
        self._updates = 0
        self.state: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Add the current weights of a module to the average."""
        current = module.state_dict()
        if not self.state:
            self.state = {name: value.clone() for name, value in current.items()}
        self._updates += 1
        # after t steps about t / 10 of them count
        decay = min(self._decay, (1 + self._updates) / (10 + self._updates))
        for name, value in current.items():
            self.state[name] = self.state[name].to(value.device)  # a resumed one is on the CPU
            if value.is_floating_point():
                self.state[name].lerp_(value, 1 - decay)
            else:
                self.state[name].copy_(value)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for ``load_state_dict``."""
        return {"updates": self._updates, "state": self.state}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore a saved average."""
        self._updates = int(saved["updates"])
        self.state = {name: value.clone() for name, value in saved["state"].items()}
