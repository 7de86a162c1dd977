"""One step's worth of labelled inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """Inputs of several samples as one, with their labels.

    Parameters
    ----------
    inputs : Tensor or PrimalDualGraph
        The argument of the model.
    labels : Tensor, (samples,), int64
        Class index of every sample.
    total : int
        Samples of this step over all processes.
    """

    inputs: Any
    labels: Tensor
    total: int

    def to(self, device: torch.device) -> LabelledBatch:
        """Move to a device."""
        if self.labels.device == device:
            return self
        return LabelledBatch(self.inputs.to(device), self.labels.to(device), self.total)
