"""A channelwise convolution with the last radial layer inside."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, cast, final

import torch
from torch import Tensor, nn

from equigeo._integers import checked_integer
from equigeo.graphs import EdgeIndex
from equigeo.graphs.inputs import TensorLike
from equigeo.ops import radial_conv
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.checks import check_tensor
from equigeo.ops.runtime.storage import rounded_once
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.paths.channelwise_paths import ChannelwisePaths
from equigeo.tensor_products.products.channelwise_tensor_product import ChannelwiseTensorProduct
from equigeo.tensor_products.products.edge_convolution import EdgeConvolution, op_graph
from equigeo.tensor_products.products.product import check_components


@final
class RadialChannelwiseConv(EdgeConvolution):
    r"""Channelwise convolution with weights :math:`h_e R / \sqrt{H}`, which are never stored.

    The weights are most of what a convolution reads. Here the last linear layer of the radial
    network, which computes them from ``num_hidden`` invariant numbers per edge, is part of the op.
    Other arguments: see :class:`ChannelwiseTensorProduct`.

    Attributes
    ----------
    radial : Parameter, (num_hidden, weight_numel)
        Drawn from N(0, 1), as the last layer of ``equigeo.nn.RadialMLP``.

    Examples
    --------
    >>> conv = RadialChannelwiseConv("8x0e + 8x1o", "0e + 1o", "0e + 1o", num_hidden=16)
    >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
    >>> x, edge_attr = torch.randn(3, 32), torch.randn(3, 4)
    >>> conv(x, edge_index, edge_attr, torch.randn(3, 16)).shape
    torch.Size([3, 64])
    """

    def __init__(
        self,
        irreps_in1: Any,
        irreps_in2: Any,
        irreps_out: Any,
        num_hidden: int,
        irrep_normalization: str | None = None,
        path_normalization: str | None = None,
        *,
        weight_order: Literal["output", "instruction"] = "output",
        layout: Layout = "mul_ir",
    ) -> None:
        irreps = (irreps_in1, irreps_in2, irreps_out)
        product = ChannelwiseTensorProduct(
            *irreps,
            irrep_normalization,
            path_normalization,
            weight_order=weight_order,
            layout=layout,
        )
        super().__init__(product, shared_weights=False)
        num_hidden = checked_integer("num_hidden", num_hidden, 1)
        self.num_hidden = num_hidden
        self.radial = nn.Parameter(torch.randn(num_hidden, self.weight_numel))

    @computes_in_float32
    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor | None],
        edge_index: EdgeIndex | TensorLike,
        edge_attr: Tensor,
        hidden: Tensor,
        *,
        num_nodes: int | None = None,
    ) -> Tensor:
        """Convolve with invariant ``hidden`` (edges, num_hidden), as :class:`ChannelwiseConv`."""
        check_tensor("hidden", hidden)
        if hidden.ndim != 2 or hidden.shape[1] != self.num_hidden:
            raise ValueError(
                f"hidden must be (edges, {self.num_hidden}), got {tuple(hidden.shape)}"
            )
        x, edges = self.check_graph(x, edge_index, edge_attr, num_nodes)
        irreps = self.irreps_in1, self.irreps_in2
        named = {"x": (x, irreps[0].dim), "edge_attr": (edge_attr, irreps[1].dim)}
        check_components(named | {"hidden": (hidden, self.num_hidden)})
        if x.dtype != self.radial.dtype:
            raise TypeError(
                f"x must have the dtype of the weights, {self.radial.dtype}, got {x.dtype}"
            )
        operands = [x, edge_attr, hidden, self.radial]
        return cast(Tensor, rounded_once(partial(self._sum_edges, edges), operands))

    def _sum_edges(
        self, edges: EdgeIndex, x: Tensor, edge_attr: Tensor, hidden: Tensor, radial: Tensor
    ) -> Tensor:
        """Convolve with weights that the radial layer computes from hidden features."""
        # Unit variance of the weights for hidden numbers of unit variance.
        radial = radial * self.num_hidden**-0.5
        paths = self.product.compiled
        if isinstance(paths, ChannelwisePaths):
            table = paths.table(x.dtype)
            return radial_conv(x, edge_attr, hidden, radial, op_graph(edges), table)
        return self._convolve(x, edges, edge_attr, hidden @ radial)
