"""Graphs of a part of a data set, built once and kept in memory."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equigeo.mesh import PrimalDualGraph
from equigeo.training.labelled_batch import LabelledBatch
from equigeo.training.labelled_source import LabelledSource


@dataclass(frozen=True, eq=False)
class LabelledGraphs(LabelledSource):
    """One graph and one label per mesh.

    Parameters
    ----------
    graphs : sequence of PrimalDualGraph
        On the CPU.
    labels : Tensor, (meshes,), int64
        Class index of every mesh.
    jitter : float
        Deviation of the noise on vertices, in mean edge lengths, where noise is asked for.
    """

    graphs: Sequence[PrimalDualGraph]
    labels: Tensor
    jitter: float = 0.0

    def batch(
        self,
        indices: Sequence[int],
        total: int | None = None,
        generator: torch.Generator | None = None,
    ) -> LabelledBatch:
        """Unite some graphs, in the given order."""
        graph = PrimalDualGraph.batch([self.graphs[i] for i in indices])
        if generator is not None and self.jitter > 0:
            graph = graph.jitter(self.jitter, generator)
        labels = self.labels[torch.as_tensor(indices, dtype=torch.long)]
        return LabelledBatch(graph, labels, len(indices) if total is None else total)

    # Processes receive a copy as bytes: sharing every tensor of every graph through a file
    # descriptor, as torch.multiprocessing does, runs into the limit on open files.
    def __getstate__(self) -> dict[str, Any]:
        """Give a state without shared memory."""
        return {"bytes": pickle.dumps((list(self.graphs), self.labels, self.jitter))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy of one's own making (never a file)."""
        values = pickle.loads(state["bytes"])
        for name, value in zip(("graphs", "labels", "jitter"), values, strict=True):
            object.__setattr__(self, name, value)
