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
    area_weighted : bool
        Whether means weigh nodes by their areas, so that they do not depend on how finely which
        part is meshed.

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

    def __init__(
        self, streams: Streams, statistics: tuple[Statistic, ...], *, area_weighted: bool = False
    ) -> None:
        super().__init__()
        if streams not in get_args(Streams):
            raise ValueError(f"streams must be one of {get_args(Streams)}, got {streams!r}")
        if not statistics or any(name not in get_args(Statistic) for name in statistics):
            raise ValueError(f"statistics must be among {get_args(Statistic)}, got {statistics}")
        self.streams, self.statistics = streams, tuple(statistics)
        self.area_weighted = area_weighted

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

        Raises
        ------
        ValueError
            If means shall be weighted by areas and the graph has none.
        """
        shares = graph.shares
        if self.area_weighted and shares is None:
            raise ValueError("a graph of adjacencies alone has no areas to weigh its features by")
        primal, dual = shares if self.area_weighted and shares is not None else (None, None)
        nodes = []
        if self.streams != "dual":
            nodes.append((graph.x_primal, graph.primal_batch, primal))
        if self.streams != "primal":
            nodes.append((graph.x_dual, graph.dual_batch, dual))
        parts = []
        for x, batch, weight in nodes:
            for name in self.statistics:
                parts.append(_REDUCE[name](x, batch, graph.num_graphs, weight))
        return torch.cat(parts, dim=1)


def group_mean(x: Tensor, batch: Tensor, size: int, weight: Tensor | None = None) -> Tensor:
    """Average rows of features by group, with weights or without.

    Parameters
    ----------
    x : Tensor, (rows, channels)
        Features.
    batch : Tensor, (rows,), int64
        Group of each row.
    size : int
        Number of groups.
    weight : Tensor, (rows,), optional
        Not negative. In a group whose weights are all zero rows count alike.

    Returns
    -------
    Tensor, (size, channels)
        Zero for a group without rows.

    Examples
    --------
    >>> x = torch.tensor([[0.0], [4.0], [7.0]])
    >>> group_mean(x, torch.tensor([0, 0, 2]), 3, torch.tensor([3.0, 1.0, 0.0])).T
    tensor([[1., 0., 7.]])
    """
    # A group without rows has total zero, over one.
    number = torch.bincount(batch, minlength=size).clamp_min(1)
    if weight is None:
        total = x.new_zeros(size, x.shape[1]).index_add(0, batch, x)
        return total / number[:, None].to(x.dtype)
    whole = weight.new_zeros(size).index_add(0, batch, weight)
    known = whole > 0  # nodes without area among themselves count alike
    share = torch.where(known[batch], weight, 1.0) / torch.where(known, whole, number)[batch]
    if size == 1:  # a large mesh: unlike a sum of weighed rows, this keeps nothing but x
        return share[None].to(x.dtype) @ x
    weighed = x * share[:, None].to(x.dtype)
    return x.new_zeros(size, x.shape[1]).index_add(0, batch, weighed)


def _max(x: Tensor, batch: Tensor, size: int, weight: Tensor | None) -> Tensor:
    """Largest value per mesh, mesh by mesh: twice as fast as a scatter and its gradient."""
    if size == 1:  # nothing to wait for on a device
        return (_largest(x) if len(x) else x.new_zeros(x.shape[1]))[None]
    parts = x.split(torch.bincount(batch, minlength=size).tolist())
    empty = x.new_zeros(x.shape[1])
    return torch.stack([_largest(part) if len(part) else empty for part in parts])


def _largest(x: Tensor) -> Tensor:
    """Largest value of each column; its gradient goes to the first row that has it.

    Of many rows PyTorch finds the maximum alone forty times as fast as the maximum and its row. So
    the first block of rows that has the maximum is found before the row in it.
    """
    whole = len(x) // _BLOCK * _BLOCK
    if whole <= _BLOCK:
        return x.max(dim=0).values
    with torch.no_grad():
        blocks = x[:whole].unflatten(0, (-1, _BLOCK)).amax(dim=1)
        if whole < len(x):
            blocks = torch.cat((blocks, x[whole:].amax(dim=0, keepdim=True)))
        first = blocks.max(dim=0).indices * _BLOCK
        inside = first + torch.arange(_BLOCK, device=x.device)[:, None]
        inside.clamp_max_(len(x) - 1)  # the last block may be short
        row = first + x.gather(0, inside).max(dim=0).indices
    return x.gather(0, row[None]).squeeze(0)


_BLOCK = 256  # the fastest of the powers of two for 10^5 and 10^6 rows of 32 channels


_REDUCE = {"mean": group_mean, "max": _max}
