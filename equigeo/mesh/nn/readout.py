"""Pooling of node features to one vector per mesh."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from equigeo._core.tensors import recording
from equigeo.graphs.edge_index import count_indices
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph

Streams = Literal["dual", "primal", "both"]
Statistic = Literal["mean", "max"]
_MOST_PADDING = 2  # rows of meshes that are made equally long, over those that they have
_BLOCK = 256  # the fastest of the powers of two for 10^5 and 10^6 rows of 32 channels
_SMALL_BLOCK = 32  # the same for 500 to 750 rows of sixteen meshes


class Readout(nn.Module):
    """Pool the node features of one or both streams over each mesh, by mean, maximum or both."""

    def __init__(
        self,
        streams: Streams,
        statistics: tuple[Statistic, ...],
        *,
        area_weighted: bool = False,  # weighted means do not depend on the tessellation
    ) -> None:
        super().__init__()
        if streams not in get_args(Streams):
            raise ValueError(f"streams must be one of {get_args(Streams)}, got {streams!r}")
        if not statistics or any(name not in get_args(Statistic) for name in statistics):
            raise ValueError(f"statistics must be among {get_args(Statistic)}, got {statistics}")
        # PD-MeshNet uses "dual" alone: its primal stream, and the attention that ranks
        # contractions, then receive no gradient.
        self.streams, self.statistics = streams, tuple(statistics)
        self.area_weighted = area_weighted

    def width(self, primal: int, dual: int) -> int:
        """Return the output width for given channel counts."""
        per_node = {"primal": primal, "dual": dual, "both": primal + dual}[self.streams]
        return per_node * len(self.statistics)

    def forward(self, graph: PrimalDualGraph) -> Tensor:
        """Pool the features of a graph, (num_graphs, width); zero for a mesh without nodes."""
        shares = graph.shares
        if self.area_weighted and shares is None:
            raise ValueError("a graph of adjacencies alone has no areas to weigh its features by")
        primal = dual = None
        if self.area_weighted and shares is not None:
            primal, dual = shares.primal, shares.dual
        nodes = []
        if self.streams != "dual":
            nodes.append((graph.x_primal, graph.primal_batch, primal))
        if self.streams != "primal":
            nodes.append((graph.x_dual, graph.dual_batch, dual))
        parts = []
        for x, batch, weight in nodes:
            # Only maxima need the number of rows per mesh, which synchronizes with the device.
            groups = _Groups(batch, graph.num_graphs) if "max" in self.statistics else None
            for name in self.statistics:
                if groups is None:
                    parts.append(group_mean(x, batch, graph.num_graphs, weight))
                else:
                    parts.append(groups.mean(x, weight) if name == "mean" else groups.largest(x))
        return torch.cat(parts, dim=1)


def group_mean(
    x: Tensor,  # (rows, channels)
    batch: Tensor,  # (rows,) group of each row
    size: int,
    weight: Tensor | None = None,  # (rows,) not negative; all zero in a group: equal weights
) -> Tensor:
    """Average rows per group, optionally weighted, (size, channels); zero for an empty group."""
    # A group without rows has total zero, over one.
    number = _totals(torch.ones_like(batch), batch, size).clamp_min(1)
    if weight is None:
        return _totals(x, batch, size) / number[:, None].to(x.dtype)
    share = _shares(batch, number, size, weight)
    # A large mesh: unlike a sum of weighed rows, this keeps nothing but x.
    if isinstance(size, int) and size == 1:  # in programs, the number of edges is none
        return share[None].to(x.dtype) @ x
    weighed = x * share[:, None].to(x.dtype)
    return x.new_zeros(size, x.shape[1]).index_add(0, batch, weighed)


def _totals(x: Tensor, batch: Tensor, size: int) -> Tensor:
    """Sum rows per group, (size, ...)."""
    if recording() and isinstance(size, int) and size == 1:  # inductor cannot add rows to one row
        return x.sum(dim=0, keepdim=True)
    return x.new_zeros(size, *x.shape[1:]).index_add(0, batch, x)


def _shares(batch: Tensor, number: Tensor, size: int, weight: Tensor) -> Tensor:
    whole = _totals(weight, batch, size)
    known = whole > 0  # nodes without area among themselves count alike
    return torch.where(known[batch], weight, 1.0) / torch.where(known, whole, number)[batch]


class _Groups:
    """Consecutive rows of the meshes of a batch."""

    def __init__(self, batch: Tensor, size: int) -> None:
        self.batch, self.size = batch, size
        # A single mesh needs no synchronization with the device.
        self.number = count_indices(batch, size) if size > 1 else None
        self.counts = [batch.shape[0]] if self.number is None else self.number.tolist()
        # Equal counts allow a reshape to three axes and one matrix product for the mean.
        self.are_even = min(self.counts, default=0) == max(self.counts, default=0) > 0

    def mean(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Return the same as :func:`group_mean`, (size, channels)."""
        if not self.are_even or self.number is None:
            return group_mean(x, self.batch, self.size, weight)
        if weight is None:
            return x.unflatten(0, (self.size, -1)).mean(dim=1)
        share = _shares(self.batch, self.number, self.size, weight).to(x.dtype)
        return torch.bmm(share.view(self.size, 1, -1), x.unflatten(0, (self.size, -1))).squeeze(1)

    def largest(self, x: Tensor) -> Tensor:
        """Return the maximum of each column per mesh, (size, channels); zero without rows."""
        if not x.shape[0]:
            return x.new_zeros(self.size, x.shape[1])
        if self.are_even and torch.compiler.is_exporting():  # for any number of rows
            return x.unflatten(0, (self.size, -1)).amax(dim=1)
        with torch.no_grad():
            # The gradient goes to the first row with the maximum.
            row = self._first_rows(x)
        found = x.gather(0, row)
        if min(self.counts) > 0:
            return found
        return torch.where(torch.tensor(self.counts, device=x.device)[:, None] > 0, found, 0)

    def _first_rows(self, x: Tensor) -> Tensor:
        """Return the rows of the maxima, (size, channels); arbitrary for an empty mesh."""
        if self.are_even:
            row = _first_largest(x.unflatten(0, (self.size, -1)))
            return row + self.counts[0] * torch.arange(self.size, device=x.device)[:, None]
        longest = max(self.counts)
        if self.size * longest > _MOST_PADDING * len(x):  # one large mesh among small ones
            parts, nothing = x.split(self.counts), x.new_zeros(1, x.shape[1], dtype=torch.int64)
            row = torch.cat([_first_largest(p[None]) if len(p) else nothing for p in parts])
            return row + self._begin(x.device)
        # shorter meshes repeat their last row, which changes no maximum
        place = torch.arange(longest, device=x.device)
        last = torch.tensor(self.counts, device=x.device)[:, None] - 1
        rows = torch.minimum(place, last.clamp_min(0)) + self._begin(x.device)
        rows.clamp_max_(len(x) - 1)  # of a mesh without rows
        return rows.gather(1, _first_largest(x[rows]))

    def _begin(self, device: torch.device) -> Tensor:
        counts = torch.tensor(self.counts, device=device)
        begin = counts.cumsum(0) - counts
        # where a mesh without rows is the last one, it begins behind the last row
        return begin.clamp_max(max(sum(self.counts) - 1, 0))[:, None]


def _first_largest(x: Tensor) -> Tensor:
    """Return the first index of the maximum along axis 1, (groups, channels)."""
    rows = x.shape[1]
    # PyTorch computes `amax` 40x faster than the maximum with its index for many rows, so the first
    # block with the maximum is located before the row inside it.
    block = _BLOCK if rows > 2 * _BLOCK * _BLOCK else _SMALL_BLOCK
    whole = rows // block * block
    if whole <= block:
        return x.max(dim=1).indices
    blocks = x[:, :whole].unflatten(1, (-1, block)).amax(dim=2)
    if whole < rows:
        blocks = torch.cat((blocks, x[:, whole:].amax(dim=1, keepdim=True)), dim=1)
    first = blocks.max(dim=1, keepdim=True).indices * block
    inside = first + torch.arange(block, device=x.device)[:, None]
    inside.clamp_max_(rows - 1)  # the last block may be short
    return first.squeeze(1) + x.gather(1, inside).max(dim=1).indices
