"""Messages by Clebsch-Gordan products, with weights for each path and channel."""

from __future__ import annotations

from typing import final

from torch import Tensor, nn

from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.nn import RadialMLP
from equigeo.nn.reached import allow_unreached
from equigeo.potentials.messages.sum_messages import (
    Messages,
    copies_of,
    sum_at_targets,
    weights_of_distances,
)
from equigeo.reps import Irreps

Hidden = tuple[int, ...]


@final
class ChannelwiseMessages(Messages):
    """The convolution of NequIP and MACE, without a message in memory.

    Parameters
    ----------
    irreps_in : Irreps
        Of the features.
    lmax : int
        Largest degree of harmonics and messages.
    basis : int
        Number of radial functions.
    hidden : tuple of int
        Widths of the radial network.
    """

    def __init__(self, irreps_in: Irreps, lmax: int, basis: int, hidden: Hidden) -> None:
        harmonics = Irreps.signal(lmax)
        conv = tp.RadialChannelwiseConv(irreps_in, harmonics, harmonics, hidden[-1])
        super().__init__(irreps_in, conv.irreps_out)
        self.conv = conv
        self.radial = RadialMLP([basis, *hidden], nn.functional.silu, out_act=True)

    def forward(self, h: Tensor, edges: EdgeIndex, harmonics: Tensor, radial: Tensor) -> Tensor:
        """Convolve, with the last radial layer inside of the op."""
        out: Tensor = self.conv(h, edges, harmonics, self.radial(radial))
        return out


@final
class FullMessages(Messages):
    """The same function by a full product, whose messages are all in memory.

    Parameters
    ----------
    irreps_in : Irreps
        Of the features.
    lmax : int
        Largest degree of harmonics and messages.
    basis : int
        Number of radial functions.
    hidden : tuple of int
        Widths of the radial network.
    """

    copies: Tensor

    def __init__(self, irreps_in: Irreps, lmax: int, basis: int, hidden: Hidden) -> None:
        harmonics = Irreps.signal(lmax)
        product = tp.FullTensorProduct(irreps_in, harmonics, [ir for _, ir in harmonics])
        super().__init__(irreps_in, product.irreps_out)
        self.product = product
        numel = sum(mul for mul, _ in product.irreps_out)
        self.radial = weights_of_distances(basis, hidden, numel)
        self.register_buffer("copies", copies_of(product.irreps_out), persistent=False)

    def forward(self, h: Tensor, edges: EdgeIndex, harmonics: Tensor, radial: Tensor) -> Tensor:
        """Multiply, weight and sum."""
        messages = self.product(h.index_select(0, edges.edge_index[0]), harmonics)
        weights = self.radial(radial).index_select(1, self.copies)
        return sum_at_targets(messages * weights, edges)


@final
class VectorSignalMessages(Messages):
    """Products of vector functions on the sphere, which make irreps of either parity.

    Parameters
    ----------
    irreps_in : Irreps
        Of the features.
    lmax : int
        Largest degree of harmonics and messages.
    basis : int
        Number of radial functions.
    hidden : tuple of int
        Widths of the radial network.
    """

    copies: Tensor

    def __init__(self, irreps_in: Irreps, lmax: int, basis: int, hidden: Hidden) -> None:
        channels = irreps_in.terms[0][0]
        harmonics = Irreps.signal(lmax)
        kinds = [ir for _, ir in harmonics]
        if any(l > 0 for _, (l, _) in irreps_in):
            kinds += [(l, -p) for l, p in kinds if l > 0]
        irreps_out = Irreps([(channels, ir) for ir in kinds])
        super().__init__(irreps_in, irreps_out)
        with allow_unreached():  # one function holds irreps of either parity
            self.product = tp.make("vector_signal", irreps_in, harmonics, irreps_out)
        self.radial = weights_of_distances(basis, hidden, channels * len(kinds))
        self.register_buffer("copies", copies_of(irreps_out), persistent=False)

    def forward(self, h: Tensor, edges: EdgeIndex, harmonics: Tensor, radial: Tensor) -> Tensor:
        """Multiply, weight and sum."""
        messages = self.product(h.index_select(0, edges.edge_index[0]), harmonics)
        weights = self.radial(radial).index_select(1, self.copies)
        return sum_at_targets(messages * weights, edges)
