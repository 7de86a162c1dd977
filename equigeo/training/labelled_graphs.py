"""Graphs of a part of a data set, built once and kept in memory."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equigeo.mesh import PrimalDualGraph
from equigeo.training.labelled_batch import LabelledBatch


@dataclass(frozen=True, eq=False)
class LabelledGraphs:
    """One graph and one label per mesh.

    Parameters
    ----------
    graphs : sequence of PrimalDualGraph
        On the CPU.
    labels : Tensor, (meshes,), int64
        Class index of every mesh.
    """

    graphs: Sequence[PrimalDualGraph]
    labels: Tensor

    def __len__(self) -> int:
        """Count the meshes."""
        return len(self.graphs)

    def batch(self, indices: Sequence[int], total: int | None = None) -> LabelledBatch:
        """Unite some graphs, in the given order."""
        graph = PrimalDualGraph.batch([self.graphs[i] for i in indices])
        labels = self.labels[torch.as_tensor(indices, dtype=torch.long)]
        return LabelledBatch(graph, labels, len(indices) if total is None else total)

    def batches(self, batch_size: int) -> Iterator[LabelledBatch]:
        """Give all graphs in order, ``batch_size`` at a time."""
        for start in range(0, len(self), batch_size):
            yield self.batch(range(start, min(start + batch_size, len(self))))

    # Processes receive a copy as bytes: sharing every tensor of every graph through a file
    # descriptor, as torch.multiprocessing does, runs into the limit on open files.
    def __getstate__(self) -> dict[str, Any]:
        """Give a state without shared memory."""
        return {"bytes": pickle.dumps((list(self.graphs), self.labels))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy of one's own making (never a file)."""
        graphs, labels = pickle.loads(state["bytes"])
        object.__setattr__(self, "graphs", graphs)
        object.__setattr__(self, "labels", labels)
