"""Message passing with a channelwise product: gather, product and scatter in one op."""

from __future__ import annotations

from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import channelwise_conv
from equigeo.tensor_products.paths.channelwise_paths import ChannelwisePaths
from equigeo.tensor_products.products.channelwise_tensor_product import ChannelwiseTensorProduct


class ChannelwiseConv(ChannelwiseTensorProduct):
    r"""Sum over neighbours of a channelwise product, without a message in memory.

    .. math:: z_t = \sum_{e: s \to t} \mathrm{product}(x_s, y_e, w_e)

    The convolution of NequIP and MACE. The parameters are those of
    :class:`ChannelwiseTensorProduct`. Targets add their own edges in a fixed order, so that results
    are reproducible to the bit.

    Equivariance
    ------------
    As the product; permuting edges or nodes permutes the result.

    References
    ----------
    Batzner et al., "E(3)-equivariant graph neural networks for data-efficient and accurate
    interatomic potentials", 2022.

    Examples
    --------
    >>> import torch
    >>> conv = ChannelwiseConv("8x0e + 8x1o", "0e + 1o", "0e + 1o")
    >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
    >>> x, edge_attr = torch.randn(3, 32), torch.randn(3, 4)
    >>> conv(x, edge_index, edge_attr, torch.randn(3, conv.weight_numel)).shape
    torch.Size([3, 64])
    """

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        edge_index: EdgeIndex | Tensor,
        edge_attr: Tensor,
        weights: Tensor | None = None,
        *,
        num_nodes: int | None = None,
    ) -> Tensor:
        """Convolve.

        Parameters
        ----------
        x : Tensor, (sources, irreps_in1.dim), floating
            Node features.
        edge_index : EdgeIndex or Tensor, (2, edges), int64
            Row 0 sources, row 1 targets. A tensor is checked and sorted in every call; an
            ``EdgeIndex`` only once.
        edge_attr : Tensor, (edges, irreps_in2.dim), floating
            Edge features, for example spherical harmonics.
        weights : Tensor, (edges, weight_numel), optional
            Weights of every edge; by default those of the module, where it has any.
        num_nodes : int, optional
            Number of targets; by default that of the sources. An ``EdgeIndex`` knows its own.

        Returns
        -------
        Tensor, (targets, irreps_out.dim), dtype of ``x``
            Zero where no edge arrives.

        Raises
        ------
        TypeError
            If dtypes differ, are not floating, or indices are not int64.
        ValueError
            If shapes do not fit, devices differ, weights are missing, or a node does not exist.
        """
        edges = self.check_graph(x, edge_index, edge_attr, num_nodes)
        weight = self._choose_weight(weights)
        if weight is not None and weight.ndim == 1:
            weight = weight.expand(edges.num_edges, -1)
        self.check_inputs(x[:1], edge_attr[:1], None if weight is None else weight[:1])
        if self.channelwise is None or not ChannelwisePaths.accepts(x):
            return self._by_messages(x, edges, edge_attr, weight)
        table = self.channelwise.table(x.dtype)
        return channelwise_conv(x, edge_attr, weight, self.graph_of(edges), table)

    def check_graph(
        self, x: Tensor, edge_index: EdgeIndex | Tensor, edge_attr: Tensor, num_nodes: int | None
    ) -> EdgeIndex:
        """Refuse features that do not fit the graph, and sort its edges where they are not.

        Parameters
        ----------
        x : Tensor, (sources, components)
            Node features.
        edge_index : EdgeIndex or Tensor, (2, edges), int64
            The edges.
        edge_attr : Tensor, (edges, components)
            Edge features.
        num_nodes : int or None
            Number of targets.

        Returns
        -------
        EdgeIndex
            The edges.

        Raises
        ------
        TypeError, ValueError
            As :meth:`forward`.
        """
        if x.ndim != 2 or edge_attr.ndim != 2:
            raise ValueError(
                "x must be (sources, components) and edge_attr (edges, components), "
                f"got {tuple(x.shape)} and {tuple(edge_attr.shape)}"
            )
        edges = self._edges(x, edge_index, num_nodes)
        if edge_attr.shape[0] != edges.num_edges:
            raise ValueError(
                f"edge_attr must have {edges.num_edges} rows, got {edge_attr.shape[0]}"
            )
        return edges

    @staticmethod
    def graph_of(edges: EdgeIndex) -> tuple[Tensor, ...]:
        """Give the index tensors that the op takes."""
        by_target = (edges.source, edges.ptr, edges.order)
        return (*by_target, edges.target, edges.back_order, edges.back_ptr)

    def _edges(self, x: Tensor, edge_index: EdgeIndex | Tensor, num_nodes: int | None) -> EdgeIndex:
        if isinstance(edge_index, Tensor):
            targets = x.shape[0] if num_nodes is None else num_nodes
            return EdgeIndex.from_edges(edge_index, x.shape[0], targets)
        if edge_index.num_sources != x.shape[0] or num_nodes not in (None, edge_index.num_targets):
            raise ValueError(
                f"edge_index joins {edge_index.num_sources} sources and {edge_index.num_targets} "
                f"targets, but x has {x.shape[0]} rows and num_nodes is {num_nodes}"
            )
        return edge_index

    def _by_messages(
        self, x: Tensor, edges: EdgeIndex, edge_attr: Tensor, weight: Tensor | None
    ) -> Tensor:
        """Multiply edge by edge, for dtypes and degrees that the op does not take."""
        source, target = edges.edge_index
        messages = super().forward(x.index_select(0, source), edge_attr, weight)
        return x.new_zeros(edges.num_targets, messages.shape[1]).index_add(0, target, messages)
