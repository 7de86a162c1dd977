"""Decoder block of the mesh segmenter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from equigeo.groups import O
from equigeo.mesh.conv.residual_block import ResidualBlock
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph
from equigeo.mesh.pooling.unpool import PoolLog, unpool
from equigeo.reps import Representation, Trivial


class UpBlock(nn.Module):
    """Convolve, unpool, and convolve again with the skip features concatenated."""

    def __init__(
        self,
        in_channels: int,  # of both streams, as the other two counts
        skip_channels: int,
        out_channels: int,
        skips: int = 0,  # convolutions per residual branch
        **options: Any,  # of PrimalDualConv
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        inner, both = (out_channels, out_channels), out_channels + skip_channels
        self.below = ResidualBlock((in_channels, in_channels), inner, skips=skips, **options)
        self.above = ResidualBlock((both, both), inner, skips=skips, **options)
        # What pairs of faces that vanished inside a cluster are given.
        self.fill = nn.Parameter(torch.empty(1, out_channels))
        nn.init.xavier_uniform_(self.fill)

    @property
    def rep_in(self) -> tuple[Representation, Representation]:
        """Scalars of both streams."""
        return Trivial(O(3), self.in_channels), Trivial(O(3), self.in_channels)

    @property
    def rep_out(self) -> tuple[Representation, Representation]:
        """Scalars of both streams."""
        return Trivial(O(3), self.out_channels), Trivial(O(3), self.out_channels)

    def forward(
        self,
        graph: PrimalDualGraph,
        log: PoolLog | None,  # of the pooling, if any
        skip: tuple[Tensor, Tensor],  # (faces, skip_channels), (pairs, skip_channels)
    ) -> PrimalDualGraph:
        """Apply the block; the result is the graph before the pooling with new features."""
        graph, _ = self.below(graph, graph.x_primal, graph.x_dual)
        x_primal, x_dual = graph.x_primal, graph.x_dual
        if log is not None:
            graph, x_primal, x_dual = unpool(log, x_primal, x_dual, self.fill[0])
        joined = [torch.cat(pair, dim=1) for pair in zip((x_primal, x_dual), skip, strict=True)]
        graph, _ = self.above(graph, *joined)
        return graph
