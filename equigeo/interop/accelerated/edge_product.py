"""Gather, product and scatter in one op, along any paths that keep channels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from equigeo.interop._require import require_e3nn
from equigeo.interop.accelerated.accelerated import Accelerated
from equigeo.interop.accelerated.accelerated_product import AcceleratedProduct
from equigeo.interop.accelerated.arguments import random, random_graph
from equigeo.interop.accelerated.edge_orders import known_edge_orders
from equigeo.interop.descriptions.coupling_signs import same_signs
from equigeo.nn.maps.fit_together import fit_together
from equigeo.ops import PathTable, channelwise_conv
from equigeo.ops.products.channelwise_conv import channelwise_conv_op
from equigeo.tensor_products import TensorProduct
from equigeo.tensor_products.paths.channelwise_paths import ChannelwisePaths


class EdgeProduct(nn.Module):
    """Convolution by a product of e3nn, as :class:`equigeo.tensor_products.ChannelwiseConv`."""

    def __init__(self, product: TensorProduct) -> None:
        super().__init__()
        if not isinstance(product.compiled, ChannelwisePaths):
            raise ValueError("its paths do not all keep the channels of the first input")
        self.product = product

    @classmethod
    def of(cls, module: Any) -> EdgeProduct:
        """Build from an ``e3nn.o3.TensorProduct``."""
        product: Any = AcceleratedProduct.body_of(module)
        return cls(product)

    def takes(self, x: Tensor, *ends: Tensor) -> bool:
        """Return whether the op supports the dtypes of features and edges."""
        if x.dtype not in (torch.float32, torch.float64):
            return False
        return all(isinstance(index, Tensor) and index.dtype == torch.int64 for index in ends)

    def forward(
        self,
        x: Tensor,  # (nodes, irreps_in1.dim)
        y: Tensor,  # (edges, irreps_in2.dim)
        weight: Tensor | None,  # (edges, weight_numel) or (weight_numel,)
        source: Tensor,  # (edges,), negative values count from the end
        target: Tensor,  # (edges,)
    ) -> Tensor:  # (nodes, irreps_out.dim)
        """Convolve; zero for nodes without edges."""
        if not self.product.weight_numel:
            weight = None
        elif weight is not None and weight.ndim == 1:
            weight = weight.expand(source.shape[0], -1)
        paths: Any = self.product.compiled  # channelwise, as the constructor checks
        table = paths.table(x.dtype)
        # Not len(x), which would be the same number in all graphs that are traced from here.
        graph = known_edge_orders(source, target, x.shape[0])
        if not _are_rows(x, y, weight, source.shape[0], table):
            return channelwise_conv(x, y, weight, graph, table)  # raises with the reason
        tables = (table.paths, table.entries, table.values, table.dim_out, table.ir_mul)
        out: Tensor = channelwise_conv_op(x, y, weight, *graph, *tables)
        return out


class AcceleratedEdges(Accelerated):
    """Base of convolutions in one op along the paths of a product, by default the child ``tp``."""

    runs_on = "equigeo.ops.products.channelwise_conv"

    accelerated: EdgeProduct

    @classmethod
    def _product_of(cls, module: Any) -> Any:
        return module.tp

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        """Build the convolution; see :meth:`Accelerated.body_of`."""
        product = cls._product_of(module)
        if product.internal_weights:
            raise ValueError("has weights of its own, not one row per edge")
        return EdgeProduct.of(product)

    def renew(self) -> None:
        """Read the signs of couplings again, which e3nn saves."""
        product = self._product_of(self)
        if not same_signs(self.accelerated.product, product, require_e3nn()):
            self.accelerated = EdgeProduct.of(product).train(self.training)

    def _draw(self, rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return features of nodes and edges, weights, and unsorted edges (2, rows)."""
        product = self._product_of(self)
        like, numel = product.output_mask, product.weight_numel
        nodes, edges = random_graph(rows, like.device)
        x = random(nodes, product.irreps_in1.dim, like=like)
        y = random(rows, product.irreps_in2.dim, like=like, seed=1)
        shape = (numel,) if product.shared_weights else (rows, numel)
        return x, y, random(*shape, like=like, seed=2), edges


def _are_rows(x: Tensor, y: Tensor, weight: Tensor | None, edges: int, table: PathTable) -> bool:
    """Return whether operands match a table; faster than a check with error messages."""
    return (
        x.ndim == 2
        and x.shape[1] == table.dim_x
        and y.shape[:-1] == (edges,)
        and fit_together((y, weight), (table.dim_y, table.dim_weight))
        and (weight is None) == (table.dim_weight == 0)
        and (weight is None or weight.ndim == 2)
        and x.device == y.device
    )
