"""Message passing that rotates edges onto an axis and mixes features order by order."""

from __future__ import annotations

from typing import Any, final

from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.graphs.inputs import TensorLike
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.checks import check_tensor
from equigeo.tensor_products.orders.so2_config import SO2Config
from equigeo.tensor_products.orders.so2_layer import Features, SO2Layer


@final
class SO2Conv(SO2Layer):
    r"""Sum a Clebsch-Gordan product over neighbours, computed in the frames of the edges.

    .. math:: z_t = \sum_{e: s \to t} c_e\, D(u_e)^T \bigl(W (s_e \odot D(u_e)\, x_s) + b\bigr)

    The convolution of eSCN, EquiformerV2 and eSEN. In the frame of an edge, whose y axis it is, the
    harmonics of the edge have one component that is not zero, and a product with weights for all
    pairs of channels is one matrix for each order m. With all orders and without modulation it *is*
    the fully connected product with harmonics of all degrees, odd paths included:
    :meth:`path_weights` and :meth:`set_path_weights` are the change of weights. Nothing of an edge
    is stored, and gradients by positions are exact at every direction, the poles included.

    Parameters
    ----------
    irreps_in, irreps_out : str, Irreps or e3nn.o3.Irreps
        Features of a node before and after, of any multiplicities and of degrees up to 10; several
        terms may have one degree.
    filter_lmax : int, optional
        Largest degree of the harmonics of the edge. Parameters are then weights of paths.
    mmax : int, optional
        Largest order that is mixed, by default all; others are dropped, at no loss of symmetry.
    config : SO2Config, optional
        The rest: group, modulation, kind of weights, bias, what an edge sends, layout.
    **changes : Any
        Fields of :class:`SO2Config` that differ from it.

    Attributes
    ----------
    mixing : Parameter, (mixing_numel,)
        Numbers of all matrices or of all paths, drawn from N(0, 1); None without internal weights.
    bias : Parameter
        One for each copy that may have one, zero at first; None where there is none.
    weight_numel : int
        Numbers by which an edge modulates its source, order by order and in each term by term.
    mmax, filter_lmax : int
        As they are in effect.
    config : SO2Config
        As it is in effect.

    Raises
    ------
    ValueError
        If an argument cannot be read or is out of range.

    Equivariance
    ------------
    Under O(3), vectors of edges being polar; under SO(3) alone where ``group="SO3"``. Permuting
    edges or nodes permutes the result. Reversing edges changes it.

    References
    ----------
    Passaro and Zitnick, "Reducing SO(3) Convolutions to SO(2) for Efficient Equivariant GNNs",
    ICML 2023.

    Examples
    --------
    >>> import torch
    >>> conv = SO2Conv("8x0e + 8x1o + 8x2e", "4x0e + 4x1o", mmax=1, modulation="order")
    >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
    >>> x, edge_vec, weights = torch.randn(3, 72), torch.randn(3, 3), torch.rand(3, 40)
    >>> conv(x, edge_index, edge_vec, weights).shape
    torch.Size([3, 16])
    """

    def __init__(
        self,
        irreps_in: Any,
        irreps_out: Any,
        filter_lmax: int | None = None,
        mmax: int | None = None,
        config: SO2Config | None = None,
        **changes: Any,
    ) -> None:
        super().__init__(irreps_in, irreps_out, filter_lmax, mmax, config, changes)

    @property
    def weight_numel(self) -> int:
        """Number of modulation factors per edge."""
        return 0 if self.config.modulation is None else self.table.scale_numel

    @computes_in_float32
    def forward(
        self,
        x: Features,
        edge_index: EdgeIndex | TensorLike,
        edge_vec: Tensor,
        weights: Tensor | None = None,
        *,
        mixing: Tensor | None = None,
        envelope: Tensor | None = None,
        num_nodes: int | None = None,
    ) -> Tensor:
        """Convolve the features of a graph.

        Parameters
        ----------
        x : Tensor, (sources, irreps_in.dim), or (Tensor, Tensor or None), floating
            Node features; of a bipartite graph, as in PyTorch Geometric, those of its sources and
            of its targets.
        edge_index : EdgeIndex or Tensor, (2, edges), int64
            Row 0 sources, row 1 targets.
        edge_vec : Tensor, (edges, 3), dtype of ``x``
            The edges in space, of any length: that of length zero has no direction and sends
            nothing.
        weights : Tensor, (edges, weight_numel), optional
            Modulation of every edge, invariant numbers, where there is one.
        mixing : Tensor, (mixing_numel,), optional
            Weights of all edges, where the module has none of its own.
        envelope : Tensor, (edges,), optional
            Factor of each message, for instance a smooth cut-off.
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
        if (weights is None) != (self.config.modulation is None):
            raise ValueError(
                f"weights must be (edges, {self.weight_numel}) for modulation "
                f"{self.config.modulation!r}, got {None if weights is None else 'a tensor'}"
            )
        if weights is not None:
            check_tensor("weights", weights)
        if weights is not None and (weights.ndim != 2 or weights.shape[1] != self.weight_numel):
            raise ValueError(
                f"weights must be (edges, {self.weight_numel}), got {tuple(weights.shape)}"
            )
        return self._convolve(
            x, edge_index, edge_vec,
            scale=weights, radial=None, mixing=mixing, envelope=envelope, num_nodes=num_nodes,
        )  # fmt: skip
