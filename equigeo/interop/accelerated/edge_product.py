"""Gather, product and scatter in one op, along any paths that keep channels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from equigeo.interop.accelerated.accelerated_product import AcceleratedProduct
from equigeo.interop.accelerated.edge_orders import known_edge_orders
from equigeo.nn.maps.fit_together import fit_together
from equigeo.ops import PathTable, channelwise_conv
from equigeo.ops.products.channelwise_conv import channelwise_conv_op
from equigeo.tensor_products import TensorProduct
from equigeo.tensor_products.paths.channelwise_paths import ChannelwisePaths


class EdgeProduct(nn.Module):
    """Convolution by a product of e3nn, as :class:`equigeo.tensor_products.ChannelwiseConv`.

    Parameters
    ----------
    product : TensorProduct
        With external weights.

    Raises
    ------
    ValueError
        If its paths are not all ``uvu`` with weights, or all without, of degrees that the op knows.
    """

    def __init__(self, product: TensorProduct) -> None:
        super().__init__()
        if not isinstance(product.compiled, ChannelwisePaths):
            raise ValueError("its paths do not all keep the channels of the first input")
        self.product = product

    @classmethod
    def of(cls, module: Any) -> EdgeProduct:
        """Make it of an ``e3nn.o3.TensorProduct``."""
        product: Any = AcceleratedProduct.body_of(module)
        return cls(product)

    def takes(self, x: Tensor, *ends: Tensor) -> bool:
        """Tell whether the op knows the dtypes of features and of ends of edges."""
        if x.dtype not in (torch.float32, torch.float64):
            return False
        return all(isinstance(index, Tensor) and index.dtype == torch.int64 for index in ends)

    def forward(
        self, x: Tensor, y: Tensor, weight: Tensor | None, source: Tensor, target: Tensor
    ) -> Tensor:
        """Convolve.

        Parameters
        ----------
        x : Tensor, (nodes, irreps_in1.dim), float32 or float64
            Features of nodes.
        y : Tensor, (edges, irreps_in2.dim)
            Features of edges.
        weight : Tensor, (edges, weight_numel) or (weight_numel,), or None
            Weights of paths, where there are any.
        source, target : Tensor, (edges,), int64
            Where each edge comes from and goes to; a negative source counts from the end.

        Returns
        -------
        Tensor, (nodes, irreps_out.dim)
            Zero where no edge arrives.

        Raises
        ------
        IndexError
            If there is no such node, where this can be told without waiting for a device.
        """
        if not self.product.weight_numel:
            weight = None
        elif weight is not None and weight.ndim == 1:
            weight = weight.expand(source.shape[0], -1)
        paths: Any = self.product.compiled  # channelwise, as the constructor checks
        table = paths.table(x.dtype)
        # Not len(x), which would be the same number in all graphs that are traced from here.
        graph = known_edge_orders(source, target, x.shape[0])
        if not _are_rows(x, y, weight, source.shape[0], table):
            return channelwise_conv(x, y, weight, graph, table)  # which says what is wrong
        tables = (table.paths, table.entries, table.values, table.dim_out, table.ir_mul)
        out: Tensor = channelwise_conv_op(x, y, weight, *graph, *tables)
        return out


def _are_rows(x: Tensor, y: Tensor, weight: Tensor | None, edges: int, table: PathTable) -> bool:
    """Tell whether operands fit a table, in less time than it takes to say why not."""
    return (
        x.ndim == 2
        and x.shape[1] == table.dim_x
        and y.shape[:-1] == (edges,)
        and fit_together((y, weight), (table.dim_y, table.dim_weight))
        and (weight is None) == (table.dim_weight == 0)
        and (weight is None or weight.ndim == 2)
        and x.device == y.device
    )
