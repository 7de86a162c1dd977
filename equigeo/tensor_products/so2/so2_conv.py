"""Message passing that rotates edges onto an axis and mixes features order by order."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn

from equigeo._core.checks import TensorLike, check_tensor, checked_integer
from equigeo._core.tensors import computes_in_float32
from equigeo.graphs import EdgeIndex
from equigeo.tensor_products.so2.so2_layer import Features, SO2Layer
from equigeo.tensor_products.so2.so2_paths import SO2Config


@final
class SO2Conv(SO2Layer):
    r"""Sum a Clebsch-Gordan product over neighbours, computed in the frames of the edges.

    .. math:: z_t = \sum_{e: s \to t} c_e\, D(u_e)^T \bigl(W (s_e \odot D(u_e)\, x_s) + b\bigr)

    The convolution of eSCN (Passaro and Zitnick, ICML 2023), EquiformerV2 and eSEN. In the frame of
    an edge, whose y axis it is, the harmonics of the edge have one nonzero component, and a product
    with weights for all pairs of channels is one matrix per order m. With all orders and without
    modulation this is the fully connected product with harmonics of all degrees, odd paths
    included. Nothing is stored per edge, and gradients by positions are exact in every direction,
    the poles included. Equivariant under O(3), or SO(3) if ``group="SO3"``.

    Parameters
    ----------
    irreps_in, irreps_out : str, Irreps or e3nn.o3.Irreps
        Of degrees up to 10; several terms may have one degree.
    num_hidden : int, optional
        Compute the modulation :math:`h_e R / \sqrt{H}` inside the op from H invariant numbers per
        edge, the argument ``weights``. ``modulation`` is then "order" by default.
    mmax : int, optional
        Largest order that is mixed, by default all; dropping others keeps the symmetry.
    group : {"O3", "SO3"}
        "O3" allows the weights that parities allow: real parts between irreps that are both
        natural, p = (-1)^l, or both not, imaginary parts between one of each. "SO3" ignores
        parities, as fairchem does; energies of mirror images then differ.
    modulation : {None, "order", "degree"}
        Factors per edge that multiply its source in the frame: none, one per order of each copy,
        or one per copy.
    bias : bool
        Whether order 0 of the frame has a bias; with "O3" only natural irreps do.
    sources : {"source", "both"}
        Whether an edge sends the features of its source, or those of source and target side by
        side, the channels of the source first in each term.
    layout : {"mul_ir", "ir_mul"}
    internal_weights : bool
        Whether the module owns its matrices; otherwise ``forward`` takes them.

    Attributes
    ----------
    mixing : Parameter, (mixing_numel,)
        Elements of all matrices, drawn from N(0, 1); None without internal weights.
    bias : Parameter
        One per copy that may have one, initialized to zero; None without bias.
    radial : Parameter, (num_hidden, numbers of the modulation)
        R, drawn from N(0, 1) as the last layer of ``equigeo.nn.RadialMLP``; None by default.
    weight_numel : int
        Number of modulation factors per edge.

    Examples
    --------
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
        num_hidden: int | None = None,
        mmax: int | None = None,
        config: SO2Config | None = None,
        **changes: Any,
    ) -> None:
        if num_hidden is not None:
            num_hidden = checked_integer("num_hidden", num_hidden, 1)
            if config is None or config.modulation is None:
                changes = {"modulation": "order"} | changes
        super().__init__(irreps_in, irreps_out, mmax, config, changes)
        self.num_hidden = num_hidden
        self.register_parameter("radial", None)
        if num_hidden is not None:
            self.radial = nn.Parameter(torch.randn(num_hidden, self.table.scale_numel))

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
        """Convolve the features of a graph; ``x`` and edges as for :class:`ChannelwiseConv`.

        Parameters
        ----------
        edge_vec : Tensor, (edges, 3)
            Of any length; an edge of length zero has no direction and sends nothing.
        weights : Tensor, (edges, weight_numel) or (edges, num_hidden), optional
            Invariant modulation factors, or numbers that they are computed from.
        mixing : Tensor, (mixing_numel,), optional
            Required if and only if the module has no weights of its own.
        envelope : Tensor, (edges,), optional
            Factor per message, such as a smooth cutoff.
        """
        width = self.weight_numel if self.num_hidden is None else self.num_hidden
        if (weights is None) != (self.config.modulation is None):
            raise ValueError(
                f"weights must be (edges, {width}) for modulation "
                f"{self.config.modulation!r}, got {None if weights is None else 'a tensor'}"
            )
        if weights is not None:
            check_tensor("weights", weights)
        if weights is not None and (weights.ndim != 2 or weights.shape[1] != width):
            raise ValueError(f"weights must be (edges, {width}), got {tuple(weights.shape)}")
        made = {"scale": weights, "radial": self.radial, "mixing": mixing, "envelope": envelope}
        return self._convolve(x, edge_index, edge_vec, num_nodes=num_nodes, **made)
