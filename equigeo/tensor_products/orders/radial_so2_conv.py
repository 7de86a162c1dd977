"""A convolution by orders with the last radial layer inside."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn

from equigeo._integers import checked_integer
from equigeo.graphs import EdgeIndex
from equigeo.graphs.inputs import TensorLike
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.checks import check_tensor
from equigeo.tensor_products.orders.so2_config import SO2Config
from equigeo.tensor_products.orders.so2_layer import Features, SO2Layer


@final
class RadialSO2Conv(SO2Layer):
    r"""Convolution by orders with the modulation :math:`h_e R / \sqrt{H}`, which is never stored.

    Parameters
    ----------
    irreps_in, irreps_out : str, Irreps or e3nn.o3.Irreps
        As in :class:`SO2Conv`.
    num_hidden : int
        Hidden numbers H of each edge.
    filter_lmax, mmax : int, optional
        As in :class:`SO2Conv`.
    config : SO2Config, optional
        As in :class:`SO2Conv`; with a modulation, by order unless it says otherwise.
    **changes : Any
        Fields of :class:`SO2Config` that differ from it.

    Attributes
    ----------
    radial : Parameter, (num_hidden, numbers of the modulation)
        Drawn from N(0, 1), as the last layer of ``equigeo.nn.RadialMLP``.
    mixing, bias, mmax, filter_lmax, config
        As in :class:`SO2Conv`.

    Raises
    ------
    ValueError
        If an argument cannot be read, or there is no hidden number.

    Equivariance
    ------------
    As :class:`SO2Conv`, where the hidden numbers are invariant.

    References
    ----------
    Passaro and Zitnick, "Reducing SO(3) Convolutions to SO(2) for Efficient Equivariant GNNs",
    ICML 2023.

    Examples
    --------
    >>> conv = RadialSO2Conv("8x0e + 8x1o + 8x2e", "4x0e + 4x1o", num_hidden=16)
    >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
    >>> x, edge_vec, hidden = torch.randn(3, 72), torch.randn(3, 3), torch.randn(3, 16)
    >>> conv(x, edge_index, edge_vec, hidden).shape
    torch.Size([3, 16])
    """

    def __init__(
        self,
        irreps_in: Any,
        irreps_out: Any,
        num_hidden: int,
        filter_lmax: int | None = None,
        mmax: int | None = None,
        config: SO2Config | None = None,
        **changes: Any,
    ) -> None:
        num_hidden = checked_integer("num_hidden", num_hidden, 1)
        if config is None or config.modulation is None:
            changes = {"modulation": "order"} | changes
        super().__init__(irreps_in, irreps_out, filter_lmax, mmax, config, changes)
        self.num_hidden = num_hidden
        self.radial = nn.Parameter(torch.randn(num_hidden, self.table.scale_numel))

    @computes_in_float32
    def forward(
        self,
        x: Features,
        edge_index: EdgeIndex | TensorLike,
        edge_vec: Tensor,
        hidden: Tensor,
        *,
        num_nodes: int | None = None,
        envelope: Tensor | None = None,
        mixing: Tensor | None = None,
    ) -> Tensor:
        """Convolve the features of a graph.

        Parameters
        ----------
        x, edge_index, edge_vec, mixing, envelope, num_nodes
            As in :meth:`SO2Conv.forward`.
        hidden : Tensor, (edges, num_hidden), floating
            Invariant numbers of each edge.

        Returns
        -------
        Tensor, (targets, irreps_out.dim), dtype of ``x``
            Zero where no edge arrives.

        Raises
        ------
        TypeError
            If dtypes differ, are not floating, or indices are not int64.
        ValueError
            If shapes do not fit, devices differ, or a node does not exist.
        """
        check_tensor("hidden", hidden)
        width = self.num_hidden
        if tuple(hidden.shape[1:]) != (width,):
            raise ValueError(f"hidden must be (edges, {width}), got {tuple(hidden.shape)}")
        made = {"scale": hidden, "radial": self.radial}
        options = {"mixing": mixing, "envelope": envelope}
        return self._convolve(x, edge_index, edge_vec, num_nodes=num_nodes, **made, **options)
