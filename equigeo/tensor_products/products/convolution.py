"""Message passing by a channelwise product, without storing messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from equigeo._core.checks import (
    TensorLike,
    check_device,
    check_shape,
    check_tensor,
    checked_integer,
    kind_of,
)
from equigeo._core.tensors import HALF, computes_in_float32, in_float32, rounded_once
from equigeo.graphs import EdgeIndex
from equigeo.nn.weights import check_operands
from equigeo.ops.products.channelwise_conv import channelwise_conv_op, radial_conv_op
from equigeo.ops.products.spline_conv import spline_conv_op, spline_weights
from equigeo.reps import Representation
from equigeo.tensor_products.evaluators import ChannelwisePaths
from equigeo.tensor_products.products.channelwise import ChannelwiseTensorProduct
from equigeo.tensor_products.products.path_product import HeldProduct


@final
class ChannelwiseConv(HeldProduct):
    r"""Sum a channelwise product over neighbors without storing messages.

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
    **options
        Of the product: ``weight_order`` and ``layout``.

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

    sums_by_table: ClassVar[bool] = True  # see equigeo.ops.compile_kernels

    def __init__(
        self,
        irreps_in1: Any,
        irreps_in2: Any,
        irreps_out: Any,
        irrep_normalization: str | None = None,
        path_normalization: str | None = None,
        *,
        shared_weights: bool = False,
        num_hidden: int | None = None,
        **options: Any,
    ) -> None:
        product = ChannelwiseTensorProduct(
            irreps_in1, irreps_in2, irreps_out, irrep_normalization, path_normalization, **options
        )
        super().__init__(product, shared_weights=shared_weights)
        self.weight_order = product.weight_order
        self.register_parameter("radial", None)
        if num_hidden is not None:
            if shared_weights:
                raise ValueError("shared_weights must be False where num_hidden is given")
            num_hidden = checked_integer("num_hidden", num_hidden, 1)
            self.radial = nn.Parameter(torch.randn(num_hidden, self.weight_numel))
        self.num_hidden = num_hidden

    @property
    def rep_in(self) -> tuple[Representation, Representation]:
        """Return the representations of node and edge features."""
        return self.irreps_in1, self.irreps_in2

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
        return self._convolve(edges, x, edge_attr, weight)

    def check_graph(
        self,
        x: Tensor | tuple[Tensor, Tensor | None],
        edge_index: EdgeIndex | TensorLike,
        edge_attr: Tensor,
        num_nodes: int | None,
    ) -> tuple[Tensor, EdgeIndex]:
        """Validate features against the graph and return source features and sorted edges."""
        if isinstance(x, (tuple, list)):
            x, num_nodes = sources_of(x, num_nodes)
        for name, value in (("x", x), ("edge_attr", edge_attr)):
            if not isinstance(value, Tensor):
                raise TypeError(f"{name} must be a Tensor, got {kind_of(value)}")
        if x.ndim != 2 or edge_attr.ndim != 2:
            raise ValueError(
                "x must be (sources, components) and edge_attr (edges, components), "
                f"got {tuple(x.shape)} and {tuple(edge_attr.shape)}"
            )
        edges = sorted_edges(x, edge_index, num_nodes)
        if edge_attr.shape[0] != edges.num_edges:
            raise ValueError(
                f"edge_attr must have {edges.num_edges} rows, got {edge_attr.shape[0]}"
            )
        return x, edges

    def _convolve(
        self, edges: EdgeIndex, x: Tensor, edge_attr: Tensor, weight: Tensor | None
    ) -> Tensor:
        """Sum over the neighbors of each target, with one row of weights per edge."""
        product = self.product
        named = {"x": (x, product.irreps_in1.dim), "edge_attr": (edge_attr, product.irreps_in2.dim)}
        if weight is not None:
            named["weights"] = (weight, product.weight_numel)
        check_operands(named)
        paths = product.compiled
        if isinstance(paths, ChannelwisePaths) and paths.accepts(x, weight):
            if weight is not None:
                check_shape(weight, "weights", (edges.num_edges, product.weight_numel))
            graph_and_table = self._graph_and_table(x, edges, paths)
            return channelwise_conv_op(x, edge_attr, weight, *graph_and_table)
        if x.dtype in HALF:
            operands = [x, edge_attr, weight]
            return in_float32(partial(self._convolve, edges), operands)
        # Edge by edge, for degrees that the op does not support.
        source, target = edges.edge_index
        messages = product(x.index_select(0, source), edge_attr, weight)
        return x.new_zeros(edges.num_targets, messages.shape[1]).index_add(0, target, messages)

    def _convolve_hidden(
        self, x: Tensor, edges: EdgeIndex, edge_attr: Tensor, hidden: Any
    ) -> Tensor:
        """Convolve with weights that the radial layer computes from hidden features."""
        check_tensor("weights", hidden)
        check_shape(hidden, "weights", (edges.num_edges, len(self.radial)))
        named = {"x": (x, self.irreps_in1.dim), "edge_attr": (edge_attr, self.irreps_in2.dim)}
        check_operands(named | {"weights": (hidden, len(self.radial))})
        if x.dtype != self.radial.dtype:
            raise TypeError(
                f"x must have the dtype of the weights, {self.radial.dtype}, got {x.dtype}"
            )
        operands = [x, edge_attr, hidden, self.radial]
        return rounded_once(partial(self._sum_edges, edges), operands)

    def _sum_edges(
        self, edges: EdgeIndex, x: Tensor, edge_attr: Tensor, hidden: Tensor, radial: Tensor
    ) -> Tensor:
        radial = scaled_radial(radial)
        paths = self.product.compiled
        if isinstance(paths, ChannelwisePaths):
            graph_and_table = self._graph_and_table(x, edges, paths)
            return radial_conv_op(x, edge_attr, hidden, radial, *graph_and_table)
        return self._convolve(edges, x, edge_attr, hidden @ radial)

    def _graph_and_table(self, x: Tensor, edges: EdgeIndex, paths: ChannelwisePaths) -> list[Any]:
        """Return the last arguments of convolution ops, on the device of the features."""
        table = paths.table(x.dtype)
        check_device(x=x, edge_index=edges.source, paths=table.paths)
        tables = (table.paths, table.entries, table.values)
        return [*op_graph(edges), *tables, table.dim_out, table.ir_mul]


def scaled_radial(radial: Tensor) -> Tensor:
    """Return the matrix from hidden features to weights, (num_hidden, weight_numel)."""
    # Unit variance of the weights for hidden numbers of unit variance.
    return radial * len(radial) ** -0.5


def convolve_splines(
    conv: ChannelwiseConv,
    x: Tensor,  # (sources, irreps_in1.dim)
    edges: EdgeIndex,
    edge_attr: Tensor,  # (edges, irreps_in2.dim)
    spline: tuple[Tensor, Tensor, Tensor, Tensor],  # of the weights, as for ops.spline_conv
) -> Tensor:  # (targets, irreps_out.dim)
    """Convolve with weights that are splines of the distance."""
    paths = conv.product.compiled
    if isinstance(paths, ChannelwisePaths):
        return spline_conv_op(x, edge_attr, *spline, *conv._graph_and_table(x, edges, paths))
    return conv._convolve(edges, x, edge_attr, spline_weights(*spline)[:, : conv.weight_numel])


def op_graph(edges: EdgeIndex) -> tuple[Tensor, ...]:
    """Return the index tensors that convolution ops take."""
    return edges.source, edges.ptr, edges.order, edges.target, edges.back_order, edges.back_ptr


def sources_of(
    x: Sequence[Tensor | None],  # features of sources and of targets; the latter are only counted
    num_nodes: int | None,  # number of targets, if given
) -> tuple[Tensor, int | None]:
    """Return the source features and the number of targets of a bipartite graph."""
    source, target = x if len(x) == 2 else (None, None)
    if source is None:
        raise ValueError(f"x of a bipartite graph must be (sources, targets), got {len(x)} parts")
    if target is not None and num_nodes not in (None, len(target)):
        raise ValueError(f"num_nodes must be the {len(target)} rows of targets, got {num_nodes}")
    return source, num_nodes if target is None else len(target)


def sorted_edges(
    x: Tensor,  # (sources, components)
    edge_index: EdgeIndex | TensorLike,  # (2, edges)
    num_nodes: int | None,  # number of targets, by default that of sources
) -> EdgeIndex:
    """Return edges sorted by target, validated against the number of nodes."""
    if not isinstance(edge_index, EdgeIndex):
        targets = x.shape[0] if num_nodes is None else num_nodes
        return EdgeIndex.from_edges(edge_index, x.shape[0], targets)
    if edge_index.num_sources != x.shape[0] or num_nodes not in (None, edge_index.num_targets):
        raise ValueError(
            f"edge_index joins {edge_index.num_sources} sources and {edge_index.num_targets} "
            f"targets, but x has {x.shape[0]} rows and num_nodes is {num_nodes}"
        )
    return edge_index
