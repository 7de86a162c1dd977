"""Message passing with a channelwise product: gather, product and scatter in one op."""

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
class ChannelwiseConv(EdgeConvolution):
    r"""Sum a channelwise product over neighbours without storing messages.

    .. math:: z_t = \sum_{e: s \to t} \mathrm{product}(x_s, y_e, w_e)

    The convolution of NequIP (Batzner et al., 2022) and MACE, equivariant as its
    :class:`ChannelwiseTensorProduct`, whose arguments and state it has. Targets add their edges in
    a fixed order, so results are reproducible to the bit.

    Parameters
    ----------
    num_hidden : int, optional
        Compute the weights :math:`h_e R / \sqrt{H}` inside the op from H invariant numbers per
        edge, which are then the argument ``weights``. Weights per edge, most of what a convolution
        reads, are never stored.

    Attributes
    ----------
    product : ChannelwiseTensorProduct
        Without weights of its own.
    weight : Parameter or Tensor, (weight_numel,)
        Drawn from N(0, 1) if ``shared_weights``, otherwise empty.
    radial : Parameter, (num_hidden, weight_numel)
        R, drawn from N(0, 1) as the last layer of ``equigeo.nn.RadialMLP``; None by default.

    Examples
    --------
    >>> import torch
    >>> conv = ChannelwiseConv("8x0e + 8x1o", "0e + 1o", "0e + 1o")
    >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
    >>> x, edge_attr = torch.randn(3, 32), torch.randn(3, 4)
    >>> conv(x, edge_index, edge_attr, torch.randn(3, conv.weight_numel)).shape
    torch.Size([3, 64])
    """

    def __init__(  # noqa: PLR0913 - the arguments of the product and one
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
        num_hidden: int | None = None,
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
        self.register_parameter("radial", None)
        if num_hidden is not None:
            if shared_weights:
                raise ValueError("shared_weights must be False where num_hidden is given")
            num_hidden = checked_integer("num_hidden", num_hidden, 1)
            self.radial = nn.Parameter(torch.randn(num_hidden, self.weight_numel))
        self.num_hidden = num_hidden

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
        weights : Tensor, (edges, weight_numel) or (edges, num_hidden), optional
            By default the weights of the module, if it has any.
        num_nodes : int, optional
            Number of targets; by default that of the sources or of the ``EdgeIndex``.
        """
        x, edges = self.check_graph(x, edge_index, edge_attr, num_nodes)
        if self.num_hidden is not None:
            return self._convolve_hidden(x, edges, edge_attr, weights)
        weight = self._choose_weight(weights)
        if weight is not None and weight.ndim == 1:
            weight = weight.expand(edges.num_edges, -1)
        return self._convolve(x, edges, edge_attr, weight)

    def _convolve_hidden(
        self, x: Tensor, edges: EdgeIndex, edge_attr: Tensor, hidden: Tensor | None
    ) -> Tensor:
        """Convolve with weights that the radial layer computes from hidden features."""
        shape = edges.num_edges, self.num_hidden
        check_tensor("weights", hidden)
        if hidden is None or tuple(hidden.shape) != shape:
            got = None if hidden is None else tuple(hidden.shape)
            raise ValueError(f"weights must be {shape}, got {got}")
        sizes = self.irreps_in1.dim, self.irreps_in2.dim, hidden.shape[1]
        given = zip(("x", "edge_attr", "weights"), (x, edge_attr, hidden), sizes, strict=True)
        check_components({name: (value, size) for name, value, size in given})
        if x.dtype != self.radial.dtype:
            raise TypeError(
                f"x must have the dtype of the weights, {self.radial.dtype}, got {x.dtype}"
            )
        operands = [x, edge_attr, hidden, self.radial]
        return cast(Tensor, rounded_once(partial(self._sum_edges, edges), operands))

    def _sum_edges(
        self, edges: EdgeIndex, x: Tensor, edge_attr: Tensor, hidden: Tensor, radial: Tensor
    ) -> Tensor:
        # Unit variance of the weights for hidden numbers of unit variance.
        radial = radial * len(radial) ** -0.5
        paths = self.product.compiled
        if isinstance(paths, ChannelwisePaths):
            table = paths.table(x.dtype)
            return radial_conv(x, edge_attr, hidden, radial, op_graph(edges), table)
        return self._convolve(x, edges, edge_attr, hidden @ radial)
