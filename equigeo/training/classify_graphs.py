"""Logits of a model on many graphs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from equigeo.mesh import PrimalDualClassifier, PrimalDualGraph
from equigeo.mesh.evaluating import evaluating


@torch.no_grad()
def classify_graphs(
    model: PrimalDualClassifier, graphs: Sequence[PrimalDualGraph], batch_size: int = 32
) -> Tensor:
    """Run a model in evaluation mode, a batch at a time; its mode is put back.

    Parameters
    ----------
    model : PrimalDualClassifier
        On any device.
    graphs : sequence of PrimalDualGraph
        Built by ``model.graph``.
    batch_size : int
        Graphs at a time.

    Returns
    -------
    Tensor, (graphs, classes)
        Logits, on the CPU.
    """
    device = next(model.parameters()).device
    with evaluating(model):
        parts = [
            model(PrimalDualGraph.batch(list(graphs[i : i + batch_size])).to(device)).cpu()
            for i in range(0, len(graphs), batch_size)
        ]
    return torch.cat(parts) if parts else torch.zeros(0, model.settings.num_classes)
