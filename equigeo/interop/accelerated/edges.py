"""Accelerated convolutions: gather, product and scatter in one op."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from equigeo._core.checks import fit_together
from equigeo.interop.accelerated.base import (
    Accelerated,
    cheaply_readable,
    fit,
    random,
    random_graph,
)
from equigeo.interop.accelerated.product import AcceleratedProduct
from equigeo.interop.optional import require_e3nn
from equigeo.interop.terms import same_signs
from equigeo.nn.radial_table import RadialTable, RadialTables
from equigeo.ops import PathTable, channelwise_conv, spline_conv
from equigeo.ops.products.channelwise_conv import channelwise_conv_op
from equigeo.tensor_products import TensorProduct
from equigeo.tensor_products.evaluators import ChannelwisePaths

# Of a graph this large or larger the copy is felt in memory, and sorting not in time.
KEPT_EDGES = 2**16


class EdgeProduct(nn.Module):
    """Convolution by a product of e3nn, as :class:`equigeo.tensor_products.ChannelwiseConv`."""

    sums_by_table: ClassVar[bool] = True  # see equigeo.ops.compile_kernels

    def __init__(self, product: TensorProduct) -> None:
        super().__init__()
        if not isinstance(product.compiled, ChannelwisePaths):
            raise ValueError("its paths do not all keep the channels of the first input")
        self.product = product
        self.radial: RadialTable | RadialTables | None = None
        self.network: Any = None  # the function that the table approximates

    def freeze(self, radial: RadialTable | RadialTables, network: Any) -> None:
        """Take distances and kinds (edges, 1 or 2) in place of weights from now on."""
        self.radial, self.network = radial, network

    def weights(self, given: Tensor) -> Tensor:
        """Return the weights of edges, given them or what the table reads."""
        return given if self.radial is None else self.network(*given.unbind(1))

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
        if self.radial is not None and weight is not None:
            return self._by_distance(x, y, weight, source, target)
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
        return channelwise_conv_op(x, y, weight, *graph, *tables)

    def _by_distance(
        self, x: Tensor, y: Tensor, given: Tensor, source: Tensor, target: Tensor
    ) -> Tensor:
        graph, places = known_edge_orders(source, target, x.shape[0]), given.unbind(1)
        paths: Any = self.product.compiled
        table = paths.table(x.dtype)
        radial: Any = self.radial
        if radial.covers(*places) and self.network.is_unchanged():
            return spline_conv(x, y, radial.spline(*places), graph, table)
        return channelwise_conv(x, y, self.network(*places).to(x.dtype), graph, table)


class _Sorted(NamedTuple):
    """A copy of a sorted graph with its edge orders."""

    source: Tensor
    target: Tensor
    num_nodes: int
    orders: tuple[Tensor, ...]


_last: list[_Sorted] = []  # one at most; replaced as a whole, so that threads see all of it


def known_edge_orders(source: Tensor, target: Tensor, num_nodes: int) -> tuple[Tensor, ...]:
    """Return the result of :func:`edge_orders`, cached for the last graph; do not modify."""
    if not cheaply_readable(source, target):
        return edge_orders(source, target, num_nodes)
    if source.shape[0] >= KEPT_EDGES:
        return _checked(edge_orders(source, target, num_nodes), num_nodes)
    # All convolutions of a model share one graph, and comparing its values, which may change in
    # place, is about 10x faster than two sorts.
    for last in _last:
        if (
            last.num_nodes == num_nodes
            and torch.equal(last.source, source)
            and torch.equal(last.target, target)
        ):
            return last.orders
    with torch.inference_mode(False):  # what is kept may be needed for a gradient
        orders = _checked(edge_orders(source, target, num_nodes), num_nodes)
        _last[:] = [_Sorted(source.clone(), target.clone(), num_nodes, orders)]
    return orders


def _checked(orders: tuple[Tensor, ...], num_nodes: int) -> tuple[Tensor, ...]:
    """Validate the range of sorted ends."""
    sources, _, _, targets, back_order, _ = orders
    if len(targets):
        found = {
            "sources": (sources[back_order[0]], sources[back_order[-1]]),
            "targets": (targets[0], targets[-1]),
        }
        for name, (first, last) in found.items():
            if first < 0 or last >= num_nodes:
                raise IndexError(
                    f"{name} of edges must be in [0, {num_nodes}), got {int(first)} to {int(last)}"
                )
    return orders


def edge_orders(
    source: Tensor,  # (edges,), negative values count from the end
    target: Tensor,  # (edges,)
    num_nodes: int,  # number of sources and of targets
) -> tuple[Tensor, ...]:  # source, ptr, order, target, back_order, back_ptr
    """Sort edges by target and by source; return the index arguments of ``channelwise_conv``."""
    # Without decisions on values, unlike EdgeIndex, so that a trace holds for all graphs.
    nodes = torch.arange(num_nodes + 1, device=source.device)
    source = torch.where(source < 0, source + num_nodes, source)
    target, order = torch.sort(target, stable=True)
    source = source[order]
    by_source, back_order = torch.sort(source, stable=True)
    ptr, back_ptr = (torch.searchsorted(index, nodes) for index in (target, by_source))
    return source, ptr, order, target, back_order, back_ptr


class AcceleratedEdges(Accelerated):
    """Base of convolutions in one op along the paths of a product, by default the child ``tp``."""

    runs_on = "equigeo.ops.products.channelwise_conv"

    accelerated: EdgeProduct

    @classmethod
    def _product_of(cls, module: Any) -> Any:
        return module.tp

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        product = cls._product_of(module)
        if product.internal_weights:
            raise ValueError("has weights of its own, not one row per edge")
        return EdgeProduct.of(product)

    def renew(self) -> None:
        # e3nn saves the signs of couplings.
        product = self._product_of(self)
        if not same_signs(self.accelerated.product, product, require_e3nn()):
            self.accelerated = EdgeProduct.of(product).train(self.training)

    def _fits(self, x: Tensor, y: Tensor, weight: Tensor) -> bool:
        """Return whether the op supports the operands; distances may have another dtype."""
        given = (x, y, weight) if self.accelerated.radial is None else (x, y)
        return self.is_as_read() and fit(*given)

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
        """Sum over the neighbors of each node, (nodes, irreps_out.dim)."""
        values = (node_feats, edge_attrs, tp_weights)
        if not self._fits(*values) or not self.accelerated.takes(node_feats, edge_index):
            return self.original(*values, edge_index)
        return self.accelerated(*values, edge_index[0], edge_index[1])

    def original(self, *args: Any) -> Tensor:
        node_feats, edge_attrs, tp_weights, (sender, receiver) = args
        tp_weights = self.accelerated.weights(tp_weights)
        messages = super().original(node_feats[sender], edge_attrs, tp_weights)
        out = messages.new_zeros(node_feats.shape[0], messages.shape[-1])
        return out.index_add(0, receiver, messages)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        return self._draw(rows)


class AcceleratedPointsConvolution(AcceleratedEdges):
    """A ``Convolution`` of ``gate_points``; its child ``tp`` remains but is not called."""

    passes_by = "tp"
    live = ("fc", "sc", "lin1", "lin2", "lin3", "alpha", "num_neighbors")

    tp: Any
    fc: Any
    sc: Any
    lin1: Any
    lin2: Any
    num_neighbors: float

    def forward(
        self,
        node_input: Tensor,
        node_attr: Tensor,
        edge_src: Tensor,
        edge_dst: Tensor,
        edge_attr: Tensor,
        edge_scalars: Tensor,
    ) -> Tensor:
        """Convolve as ``Convolution`` does, (nodes, irreps_node_output.dim)."""
        values = (node_input, node_attr, edge_attr, edge_scalars)
        fits = self.is_as_read() and fit(*values)
        if not fits or not self.accelerated.takes(node_input, edge_src, edge_dst):
            return self.original(*values[:2], edge_src, edge_dst, *values[2:])
        sent = self.lin1(node_input, node_attr)
        weight = self.fc(edge_scalars)
        summed = self.accelerated(sent, edge_attr, weight, edge_src, edge_dst)
        received = summed.div(self.num_neighbors**0.5)
        return self._add(self.sc(node_input, node_attr), received, node_attr)

    @abstractmethod
    def _add(self, kept: Tensor, received: Tensor, node_attr: Tensor) -> Tensor:
        """Add the sum over neighbors to the self-connection of a node."""

    def _where_kept(self, share: Any) -> Tensor:
        # Where nothing is kept, what is received is not scaled.
        mask: Tensor = self.sc.output_mask
        return (1 - mask) + share * mask

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        like = self.tp.output_mask
        features, y, _, (source, target) = self._draw(rows)
        x = random(len(features), self.sc.irreps_in1.dim, like=like)
        attributes = random(len(features), self.sc.irreps_in2.dim, like=like, seed=2)
        scalars = random(rows, self.fc.hs[0], like=like, seed=3)
        return x, attributes, source, target, y, scalars


class AcceleratedFixedConvolution(AcceleratedPointsConvolution):
    """``Convolution`` of ``gate_points_2101`` and ``2102``, with constant shares."""

    def _add(self, kept: Tensor, received: Tensor, node_attr: Tensor) -> Tensor:
        angle = math.pi / 8
        share = self._where_kept(math.cos(angle))
        return math.sin(angle) * kept + share * self.lin2(received, node_attr)


class AcceleratedAngleConvolution(AcceleratedPointsConvolution):
    """``Convolution`` of ``e3nn.nn.models.v2103``: an angle per node determines the shares."""

    lin3: Any

    def _add(self, kept: Tensor, received: Tensor, node_attr: Tensor) -> Tensor:
        angle = 0.1 * self.lin3(received, node_attr)  # the factor of e3nn
        share = self._where_kept(angle.sin())
        return torch.addcmul(angle.cos() * kept, share, self.lin2(received, node_attr))


class AcceleratedWeightedConvolution(AcceleratedPointsConvolution):
    """``Convolution`` of ``e3nn.nn.models.v2106``: a factor per node scales the sum."""

    alpha: Any

    def _add(self, kept: Tensor, received: Tensor, node_attr: Tensor) -> Tensor:
        share = self._where_kept(self.alpha(received, node_attr))
        return torch.addcmul(kept, share, self.lin2(received, node_attr))


class AcceleratedScatter(AcceleratedEdges):
    """NequIP's ``TensorProductScatter``; its child ``tp`` remains but is not called."""

    passes_by = "tp"

    def forward(
        self, x: Tensor, edge_attr: Tensor, edge_weight: Tensor, edge_dst: Tensor, edge_src: Tensor
    ) -> Tensor:
        """Sum over the neighbors of each node, (nodes, irreps_mid.dim)."""
        values = (x, edge_attr, edge_weight)
        if not self._fits(*values) or not self.accelerated.takes(x, edge_src, edge_dst):
            weights = self.accelerated.weights(edge_weight)
            return self.original(x, edge_attr, weights, edge_dst, edge_src)
        return self.accelerated(*values, edge_src, edge_dst)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        x, y, weight, (source, target) = self._draw(rows)
        return x, y, weight, target, source


class AcceleratedIrrepsConvolution(AcceleratedEdges):
    """SevenNet's ``IrrepsConvolution``; its child ``convolution`` remains but is not called."""

    # SevenNet sends features along the reversed edges, and sets _is_batch_data on all its modules.
    passes_by = "convolution"
    live = ("weight_nn", "_is_batch_data")

    convolution: Any
    weight_nn: Any
    denominator: Tensor
    key_x: str
    key_filter: str
    key_weight_input: str
    key_edge_idx: str

    @classmethod
    def _product_of(cls, module: Any) -> Any:
        return module.convolution

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        if module.is_parallel:
            raise ValueError("appends ghost atoms of other processes")
        return super().body_of(module)

    def forward(self, data: Any) -> Any:
        """Replace the node features of a graph by the sums over their neighbors."""
        x, attributes, edges = data[self.key_x], data[self.key_filter], data[self.key_edge_idx]
        embedding = data[self.key_weight_input]
        fits = self.is_as_read() and fit(x, attributes, embedding)
        if not fits or not self.accelerated.takes(x, edges):
            if self.accelerated.radial is not None:
                raise RuntimeError("a frozen model cannot compute this: restore it first")
            return self.made_of[1].forward(self, data)
        weight = self.weight_nn(embedding)
        summed = self.accelerated(x, attributes, weight, edges[1], edges[0])
        data[self.key_x] = summed.div(self.denominator)
        return data

    def original(self, *args: Any) -> Tensor:
        return self._features(self.made_of[1].forward, *args)

    def replacement(self, *args: Any) -> Tensor:
        return self._features(type(self).forward, *args)

    def _features(self, call: Any, x: Tensor, attributes: Tensor, *given: Tensor) -> Tensor:
        keys = (self.key_x, self.key_filter, self.key_weight_input, self.key_edge_idx)
        return call(self, dict(zip(keys, (x, attributes, *given), strict=True)))[self.key_x]

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        x, y, _, edges = self._draw(rows)
        return x, y, random(rows, self.weight_nn.hs[0], like=x, seed=3), edges.flip(0)
