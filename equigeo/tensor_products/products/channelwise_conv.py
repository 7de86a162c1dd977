"""Message passing with a channelwise product: gather, product and scatter in one op."""

from __future__ import annotations

from typing import Any, Literal, final

from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.graphs.inputs import TensorLike
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.products.channelwise_tensor_product import ChannelwiseTensorProduct
from equigeo.tensor_products.products.edge_convolution import EdgeConvolution


@final
class ChannelwiseConv(EdgeConvolution):
    r"""Sum a channelwise product over neighbours without storing messages.

    .. math:: z_t = \sum_{e: s \to t} \mathrm{product}(x_s, y_e, w_e)

    The convolution of NequIP (Batzner et al., 2022) and MACE, equivariant as its
    :class:`ChannelwiseTensorProduct`, whose arguments and state it has. Targets add their edges in
    a fixed order, so results are reproducible to the bit.

    Attributes
    ----------
    product : ChannelwiseTensorProduct
        Without weights of its own.
    weight : Parameter or Tensor, (weight_numel,)
        Drawn from N(0, 1) if ``shared_weights``, otherwise empty.

    Examples
    --------
    >>> import torch
    >>> conv = ChannelwiseConv("8x0e + 8x1o", "0e + 1o", "0e + 1o")
    >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
    >>> x, edge_attr = torch.randn(3, 32), torch.randn(3, 4)
    >>> conv(x, edge_index, edge_attr, torch.randn(3, conv.weight_numel)).shape
    torch.Size([3, 64])
    """

    def __init__(
        self,
        irreps_in1: Any,
        irreps_in2: Any,
        irreps_out: Any,
        irrep_normalization: str | None = None,
        path_normalization: str | None = None,
        *,
        weight_order: Literal["output", "instruction"] = "output",
        shared_weights: bool = False,
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
        super().__init__(product, shared_weights=shared_weights)

    @computes_in_float32
    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor | None],
        edge_index: EdgeIndex | TensorLike,
        edge_attr: Tensor,
        weights: Tensor | None = None,
        *,
        num_nodes: int | None = None,
    ) -> Tensor:
        """Convolve the features of a graph to (targets, irreps_out.dim), zero without edges.

        Parameters
        ----------
        x : Tensor, (sources, irreps_in1.dim), or (Tensor, Tensor or None)
            Node features. A pair is a bipartite graph as in PyTorch Geometric; targets are counted.
        edge_index : EdgeIndex or Tensor, (2, edges), int64
            Sources and targets. A tensor is validated and sorted in every call.
        edge_attr : Tensor, (edges, irreps_in2.dim)
            Edge features, such as spherical harmonics.
        weights : Tensor, (edges, weight_numel), optional
            By default the weights of the module, if it has any.
        num_nodes : int, optional
            Number of targets; by default that of the sources or of the ``EdgeIndex``.
        """
        x, edges = self.check_graph(x, edge_index, edge_attr, num_nodes)
        weight = self._choose_weight(weights)
        if weight is not None and weight.ndim == 1:
            weight = weight.expand(edges.num_edges, -1)
        return self._convolve(x, edges, edge_attr, weight)
