"""The convolutions of e3nn's ``gate_points`` networks in one op."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from equigeo.interop.accelerated.arguments import fit, random
from equigeo.interop.accelerated.edge_product import AcceleratedEdges


class AcceleratedPointsConvolution(AcceleratedEdges):
    """A ``Convolution`` of ``gate_points``; its child ``tp`` remains but is not called."""

    passes_by = "tp"
    live = ("fc", "sc", "lin1", "lin2", "lin3", "alpha", "num_neighbors")

    tp: Any
    fc: Any
    sc: Any
    lin1: Any
    lin2: Any
    num_neighbors: float

    def forward(
        self,
        node_input: Tensor,
        node_attr: Tensor,
        edge_src: Tensor,
        edge_dst: Tensor,
        edge_attr: Tensor,
        edge_scalars: Tensor,
    ) -> Tensor:
        """Convolve as ``Convolution`` does, (nodes, irreps_node_output.dim)."""
        values = (node_input, node_attr, edge_attr, edge_scalars)
        fits = self.is_as_read() and fit(*values)
        if not fits or not self.accelerated.takes(node_input, edge_src, edge_dst):
            return self.original(*values[:2], edge_src, edge_dst, *values[2:])
        sent = self.lin1(node_input, node_attr)
        weight = self.fc(edge_scalars)
        summed = self.accelerated(sent, edge_attr, weight, edge_src, edge_dst)
        received = summed.div(self.num_neighbors**0.5)
        return self._add(self.sc(node_input, node_attr), received, node_attr)

    @abstractmethod
    def _add(self, kept: Tensor, received: Tensor, node_attr: Tensor) -> Tensor:
        """Add the sum over neighbours to the self-connection of a node."""

    def _where_kept(self, share: Any) -> Tensor:
        # Where nothing is kept, what is received is not scaled.
        mask: Tensor = self.sc.output_mask
        return (1 - mask) + share * mask

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Return features of nodes and ``rows`` edges, not sorted."""
        like = self.tp.output_mask
        features, y, _, (source, target) = self._draw(rows)
        x = random(len(features), self.sc.irreps_in1.dim, like=like)
        attributes = random(len(features), self.sc.irreps_in2.dim, like=like, seed=2)
        scalars = random(rows, self.fc.hs[0], like=like, seed=3)
        return x, attributes, source, target, y, scalars


class AcceleratedFixedConvolution(AcceleratedPointsConvolution):
    """``Convolution`` of ``gate_points_2101`` and ``2102``, with constant shares."""

    def _add(self, kept: Tensor, received: Tensor, node_attr: Tensor) -> Tensor:
        angle = math.pi / 8
        share = self._where_kept(math.cos(angle))
        out: Tensor = math.sin(angle) * kept + share * self.lin2(received, node_attr)
        return out


class AcceleratedAngleConvolution(AcceleratedPointsConvolution):
    """``Convolution`` of ``e3nn.nn.models.v2103``: an angle per node determines the shares."""

    lin3: Any

    def _add(self, kept: Tensor, received: Tensor, node_attr: Tensor) -> Tensor:
        angle = 0.1 * self.lin3(received, node_attr)  # the factor of e3nn
        share = self._where_kept(angle.sin())
        out: Tensor = torch.addcmul(angle.cos() * kept, share, self.lin2(received, node_attr))
        return out


class AcceleratedWeightedConvolution(AcceleratedPointsConvolution):
    """``Convolution`` of ``e3nn.nn.models.v2106``: a factor per node scales the sum."""

    alpha: Any

    def _add(self, kept: Tensor, received: Tensor, node_attr: Tensor) -> Tensor:
        share = self._where_kept(self.alpha(received, node_attr))
        out: Tensor = torch.addcmul(kept, share, self.lin2(received, node_attr))
        return out
