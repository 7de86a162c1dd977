"""The convolution of MACE in one op."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from equigeo.interop.accelerated.arguments import fit
from equigeo.interop.accelerated.edge_product import AcceleratedEdges


class AcceleratedConvolution(AcceleratedEdges):
    """``conv_tp`` of an interaction block of MACE, with gather and scatter inside."""

    # Blocks with an attribute conv_fusion leave both to conv_tp; MACE supports cuEquivariance and
    # OpenEquivariance this way.
    @classmethod
    def _product_of(cls, module: Any) -> Any:
        return module

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

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Return features of nodes and ``rows`` edges, not sorted."""
        return self._draw(rows)
