"""The convolution of e3nn's ``gate_points`` networks in one op."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from equigeo.interop._require import require_e3nn
from equigeo.interop.accelerated.accelerated import Accelerated
from equigeo.interop.accelerated.arguments import fit, random, random_graph
from equigeo.interop.accelerated.edge_product import EdgeProduct
from equigeo.interop.descriptions.coupling_signs import same_signs


class AcceleratedPointsConvolution(Accelerated):
    """``Convolution`` of ``e3nn.nn.models.v2106``; its child ``tp`` stays, but is not called.

    The other children compute as they do, accelerated or not.
    """

    runs_on = "equigeo.ops.products.channelwise_conv"
    passes_by = "tp"

    tp: Any
    fc: Any
    sc: Any
    lin1: Any
    lin2: Any
    alpha: Any
    num_neighbors: float
    irreps_node_input: Any
    irreps_node_attr: Any
    irreps_edge_attr: Any
    accelerated: EdgeProduct

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        """Make the convolution; see :meth:`Accelerated.body_of`."""
        return EdgeProduct.of(module.tp)

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
        if not fit(*values) or not self.accelerated.takes(node_input):
            return self.original(*values[:2], edge_src, edge_dst, *values[2:])
        sent = self.lin1(node_input, node_attr)
        weight = self.fc(edge_scalars)
        summed = self.accelerated(sent, edge_attr, weight, edge_src, edge_dst)
        received = summed.div(self.num_neighbors**0.5)
        kept = self.sc(node_input, node_attr)
        # Where nothing is kept, what is received is not scaled.
        mask = self.sc.output_mask
        alpha = (1 - mask) + self.alpha(received, node_attr) * mask
        out: Tensor = torch.addcmul(kept, alpha, self.lin2(received, node_attr))
        return out

    def renew(self) -> None:
        """Take over the signs of couplings, which e3nn saves."""
        if not same_signs(self.accelerated.product, self.tp, require_e3nn()):
            self.accelerated = EdgeProduct.of(self.tp).train(self.training)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Make features of nodes and this many edges, not sorted."""
        like = self.tp.output_mask
        nodes, (source, target) = random_graph(rows, like.device)
        x = random(nodes, self.irreps_node_input.dim, like=like)
        attributes = random(nodes, self.irreps_node_attr.dim, like=like, seed=1)
        y = random(rows, self.irreps_edge_attr.dim, like=like, seed=2)
        scalars = random(rows, self.fc.hs[0], like=like, seed=3)
        return x, attributes, source, target, y, scalars
