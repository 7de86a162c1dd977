"""The convolution of MACE in one op."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from equigeo.interop._require import require_e3nn
from equigeo.interop.accelerated.accelerated import Accelerated
from equigeo.interop.accelerated.arguments import fit, random, random_graph
from equigeo.interop.accelerated.edge_product import EdgeProduct
from equigeo.interop.descriptions.coupling_signs import same_signs


class AcceleratedConvolution(Accelerated):
    """``conv_tp`` of an interaction block of MACE, with gather and scatter inside."""

    # Blocks with an attribute conv_fusion leave both to conv_tp; MACE supports cuEquivariance and
    # OpenEquivariance this way.
    runs_on = "equigeo.ops.products.channelwise_conv"

    shared_weights: bool
    weight_numel: int
    output_mask: Tensor
    irreps_in1: Any
    irreps_in2: Any
    accelerated: EdgeProduct

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        """Build the convolution; see :meth:`Accelerated.body_of`."""
        if module.internal_weights:
            raise ValueError("has weights of its own, where MACE gives one row for each edge")
        return EdgeProduct.of(module)

    def forward(
        self, node_feats: Tensor, edge_attrs: Tensor, tp_weights: Tensor, edge_index: Tensor
    ) -> Tensor:
        """Sum over the neighbours of each node, (nodes, irreps_out.dim)."""
        arguments = (node_feats, edge_attrs, tp_weights, edge_index)
        fits = self.is_as_read() and fit(*arguments[:3])
        if not fits or not self.accelerated.takes(node_feats, edge_index):
            return self.original(*arguments)
        out: Tensor = self.accelerated(*arguments[:3], edge_index[0], edge_index[1])
        return out

    def original(self, *args: Any) -> Tensor:
        """Gather, multiply and scatter in separate steps."""
        node_feats, edge_attrs, tp_weights, (sender, receiver) = args
        messages = super().original(node_feats[sender], edge_attrs, tp_weights)
        out = messages.new_zeros(node_feats.shape[0], messages.shape[-1])
        return out.index_add(0, receiver, messages)

    def renew(self) -> None:
        """Read the signs of couplings again, which e3nn saves."""
        if not same_signs(self.accelerated.product, self, require_e3nn()):
            self.accelerated = EdgeProduct.of(self).train(self.training)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Return features of nodes and ``rows`` edges, not sorted."""
        like = self.output_mask
        nodes, edges = random_graph(rows, like.device)
        shape = (self.weight_numel,) if self.shared_weights else (rows, self.weight_numel)
        x = random(nodes, self.irreps_in1.dim, like=like)
        y = random(rows, self.irreps_in2.dim, like=like, seed=1)
        return x, y, random(*shape, like=like, seed=2), edges
