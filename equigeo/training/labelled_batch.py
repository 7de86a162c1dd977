"""One step's worth of labelled graphs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.mesh import PrimalDualGraph


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """Graphs of several meshes as one, with their labels.

    Parameters
    ----------
    graph : PrimalDualGraph
        Block-diagonal union.
    labels : Tensor, (meshes,), int64
        Class index of every mesh.
    total : int
        Meshes of this step over all processes.
    """

    graph: PrimalDualGraph
    labels: Tensor
    total: int

    def to(self, device: torch.device) -> LabelledBatch:
        """Move to a device."""
        if self.labels.device == device:
            return self
        return LabelledBatch(self.graph.to(device), self.labels.to(device), self.total)
