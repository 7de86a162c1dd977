"""The convolution of NequIP in one op."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from equigeo.interop._require import require_e3nn
from equigeo.interop.accelerated.accelerated import Accelerated
from equigeo.interop.accelerated.arguments import fit, random, random_graph
from equigeo.interop.accelerated.edge_product import EdgeProduct
from equigeo.interop.descriptions.coupling_signs import same_signs


class AcceleratedScatter(Accelerated):
    """NequIP's ``TensorProductScatter``; its child ``tp`` remains but is not called."""

    runs_on = "equigeo.ops.products.channelwise_conv"
    passes_by = "tp"

    tp: Any
    accelerated: EdgeProduct

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        """Build the convolution; see :meth:`Accelerated.body_of`."""
        if module.tp.internal_weights:
            raise ValueError("has weights of its own, where NequIP gives one row for each edge")
        return EdgeProduct.of(module.tp)

    def forward(
        self, x: Tensor, edge_attr: Tensor, edge_weight: Tensor, edge_dst: Tensor, edge_src: Tensor
    ) -> Tensor:
        """Sum over the neighbours of each node, (nodes, irreps_mid.dim)."""
        values = (x, edge_attr, edge_weight)
        fits = self.is_as_read() and fit(*values)
        if not fits or not self.accelerated.takes(x, edge_src, edge_dst):
            return self.original(*values, edge_dst, edge_src)
        out: Tensor = self.accelerated(*values, edge_src, edge_dst)
        return out

    def renew(self) -> None:
        """Read the signs of couplings again, which e3nn saves."""
        if not same_signs(self.accelerated.product, self.tp, require_e3nn()):
            self.accelerated = EdgeProduct.of(self.tp).train(self.training)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Return features of nodes and ``rows`` edges, not sorted."""
        product, like = self.tp, self.tp.output_mask
        nodes, (source, target) = random_graph(rows, like.device)
        x = random(nodes, product.irreps_in1.dim, like=like)
        y = random(rows, product.irreps_in2.dim, like=like, seed=1)
        return x, y, random(rows, product.weight_numel, like=like, seed=2), target, source
