"""From node features to one vector per mesh."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph

Streams = Literal["dual", "primal", "both"]
Statistic = Literal["mean", "max"]


class Readout(nn.Module):
    """Pool node features over each mesh.

    Parameters
    ----------
    streams : {"dual", "primal", "both"}
        Which nodes. PD-MeshNet reads the dual ones alone, so that its primal stream, and with it
        the attention that ranks contractions, never receives a gradient.
    statistics : tuple of {"mean", "max"}
        How.

    Raises
    ------
    ValueError
        If a name is unknown.

    Equivariance
    ------------
    Invariant to permutations of faces.

    Examples
    --------
    >>> Readout("both", ("mean", "max")).width(primal=32, dual=16)
    96
    """

    def __init__(self, streams: Streams, statistics: tuple[Statistic, ...]) -> None:
        super().__init__()
        if streams not in get_args(Streams):
            raise ValueError(f"streams must be one of {get_args(Streams)}, got {streams!r}")
        if not statistics or any(name not in get_args(Statistic) for name in statistics):
            raise ValueError(f"statistics must be among {get_args(Statistic)}, got {statistics}")
        self.streams, self.statistics = streams, tuple(statistics)

    def width(self, primal: int, dual: int) -> int:
        """Length of the vector for given channel counts."""
        per_node = {"primal": primal, "dual": dual, "both": primal + dual}[self.streams]
        return per_node * len(self.statistics)

    def forward(self, graph: PrimalDualGraph) -> Tensor:
        """Pool the features of a graph.

        Parameters
        ----------
        graph : PrimalDualGraph
            With features.

        Returns
        -------
        Tensor, (num_graphs, width)
            Zero for a mesh without such nodes.
        """
        nodes = []
        if self.streams != "dual":
            nodes.append((graph.x_primal, graph.primal_batch))
        if self.streams != "primal":
            nodes.append((graph.x_dual, graph.dual_batch))
        reduce = {"mean": _mean, "max": _max}
        return torch.cat(
            [reduce[s](x, b, graph.num_graphs) for x, b in nodes for s in self.statistics], dim=1
        )


def _mean(x: Tensor, batch: Tensor, size: int) -> Tensor:
    # A mesh without nodes has total zero, over one.
    total = x.new_zeros(size, x.shape[1]).index_add(0, batch, x)
    return total / torch.bincount(batch, minlength=size).clamp_min(1)[:, None].to(x.dtype)


def _max(x: Tensor, batch: Tensor, size: int) -> Tensor:
    """Largest value per mesh, mesh by mesh: twice as fast as a scatter and its gradient."""
    parts = x.split(torch.bincount(batch, minlength=size).tolist())
    empty = x.new_zeros(x.shape[1])
    return torch.stack([part.max(dim=0).values if len(part) else empty for part in parts])
