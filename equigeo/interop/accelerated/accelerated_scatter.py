"""The convolution of NequIP in one op."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from equigeo.interop.accelerated.arguments import fit
from equigeo.interop.accelerated.edge_product import AcceleratedEdges


class AcceleratedScatter(AcceleratedEdges):
    """NequIP's ``TensorProductScatter``; its child ``tp`` remains but is not called."""

    passes_by = "tp"

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

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Return features of nodes and ``rows`` edges, not sorted."""
        x, y, weight, (source, target) = self._draw(rows)
        return x, y, weight, target, source
