"""Base of convolutions by a channelwise product: graph and sum over neighbours."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import cast

from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.graphs.inputs import TensorLike, kind_of
from equigeo.ops import channelwise_conv
from equigeo.ops.runtime.storage import HALF, in_float32
from equigeo.reps import Representation
from equigeo.tensor_products.paths.channelwise_paths import ChannelwisePaths
from equigeo.tensor_products.products.channelwise_tensor_product import ChannelwiseTensorProduct
from equigeo.tensor_products.products.held_product import HeldProduct
from equigeo.tensor_products.products.product import check_components


class EdgeConvolution(HeldProduct):
    """Base of sums over neighbours of a :class:`ChannelwiseTensorProduct`."""

    @abstractmethod
    def __init__(
        self,
        product: ChannelwiseTensorProduct,  # without weights
        *,
        shared_weights: bool,  # whether the module owns one row of weights for all edges
    ) -> None:
        super().__init__(product, shared_weights=shared_weights)
        self.weight_order = product.weight_order

    @property
    def rep_in(self) -> tuple[Representation, Representation]:
        """Return the representations of node and edge features."""
        return self.irreps_in1, self.irreps_in2

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
        self, x: Tensor, edges: EdgeIndex, edge_attr: Tensor, weight: Tensor | None
    ) -> Tensor:
        """Sum over the neighbours of each target, with one row of weights per edge."""
        product = self.product
        named = {"x": (x, product.irreps_in1.dim), "edge_attr": (edge_attr, product.irreps_in2.dim)}
        if weight is not None:
            named["weights"] = (weight, product.weight_numel)
        check_components(named)
        paths = product.compiled
        if isinstance(paths, ChannelwisePaths) and paths.accepts(x, weight):
            table = paths.table(x.dtype)
            return channelwise_conv(x, edge_attr, weight, op_graph(edges), table)
        if x.dtype in HALF:

            def wide(x: Tensor, edge_attr: Tensor, weight: Tensor | None) -> Tensor:
                return self._convolve(x, edges, edge_attr, weight)

            return cast(Tensor, in_float32(wide, [x, edge_attr, weight]))
        # Edge by edge, for degrees that the op does not support.
        source, target = edges.edge_index
        messages = product(x.index_select(0, source), edge_attr, weight)
        return x.new_zeros(edges.num_targets, messages.shape[1]).index_add(0, target, messages)


def op_graph(edges: EdgeIndex) -> tuple[Tensor, ...]:
    """Return the index tensors that convolution ops take."""
    by_target = (edges.source, edges.ptr, edges.order)
    # source, ptr, order, target, back_order, back_ptr
    return (*by_target, edges.target, edges.back_order, edges.back_ptr)


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
