"""Messages by products of irreps: path by path, order by order, or as vector functions."""

from __future__ import annotations

from typing import final

from torch import Tensor, nn

from equigeo import tensor_products as tp
from equigeo.nn import RadialMLP
from equigeo.nn.index_tables import IndexTables
from equigeo.nn.reached import allow_unreached
from equigeo.potentials.messages.sum_messages import (
    EdgeFeatures,
    Messages,
    copies_of,
    sum_at_targets,
    weights_of_distances,
)
from equigeo.reps import Irreps

Hidden = tuple[int, ...]


@final
class ChannelwiseMessages(Messages):
    """Channelwise convolution of NequIP and MACE, without messages in memory."""

    def __init__(
        self,
        irreps_in: Irreps,
        lmax: int,  # of harmonics and messages
        basis: int,  # number of radial functions
        hidden: Hidden,  # widths of the radial network
    ) -> None:
        harmonics = Irreps.signal(lmax)
        conv = tp.ChannelwiseConv(irreps_in, harmonics, harmonics, num_hidden=hidden[-1])
        super().__init__(irreps_in, conv.irreps_out)
        self.conv = conv
        self.radial = RadialMLP([basis, *hidden], nn.functional.silu, out_act=True)

    def forward(self, h: Tensor, edge: EdgeFeatures) -> Tensor:
        """Convolve, with the last radial layer inside the op."""
        out: Tensor = self.conv(h, edge.edges, edge.harmonics, self.radial(edge.radial))
        return out


class ProductMessages(Messages):
    """Products in memory, weighted copy by copy and summed."""

    def __init__(
        self,
        irreps_in: Irreps,
        irreps_out: Irreps,
        product: nn.Module,  # of a feature and harmonics
        basis: int,
        hidden: Hidden,
    ) -> None:
        super().__init__(irreps_in, irreps_out)
        self.product = product
        self.radial = weights_of_distances(basis, hidden, sum(mul for mul, _ in irreps_out))
        self.positions = IndexTables(copies=copies_of(irreps_out))

    def forward(self, h: Tensor, edge: EdgeFeatures) -> Tensor:
        """Multiply, weight and sum."""
        messages = self.product(h.index_select(0, edge.source), edge.harmonics)
        weights = self.radial(edge.radial).index_select(1, self.positions["copies"])
        return sum_at_targets(messages * weights, edge.edges)


@final
class FullMessages(ProductMessages):
    """The function of `ChannelwiseMessages`, with all messages in memory."""

    def __init__(self, irreps_in: Irreps, lmax: int, basis: int, hidden: Hidden) -> None:
        harmonics = Irreps.signal(lmax)
        product = tp.FullTensorProduct(irreps_in, harmonics, [ir for _, ir in harmonics])
        super().__init__(irreps_in, product.irreps_out, product, basis, hidden)


@final
class SO2Messages(Messages):
    """SO(2) convolutions in edge frames as in eSCN, over all paths and pairs of channels."""

    def __init__(self, irreps_in: Irreps, lmax: int, basis: int, hidden: Hidden) -> None:
        channels = irreps_in.terms[0][0]
        irreps_out = Irreps([(channels, ir) for _, ir in Irreps.signal(lmax)])
        super().__init__(irreps_in, irreps_out)
        self.conv = tp.SO2Conv(irreps_in, irreps_out, modulation="order")
        self.radial = weights_of_distances(basis, hidden, self.conv.weight_numel)

    def forward(self, h: Tensor, edge: EdgeFeatures) -> Tensor:
        """Convolve with messages modulated by weights of distances."""
        out: Tensor = self.conv(h, edge.edges, edge.vectors, self.radial(edge.radial))
        return out


@final
class VectorSignalMessages(ProductMessages):
    """Products of vector functions on the sphere, which yield irreps of either parity."""

    def __init__(self, irreps_in: Irreps, lmax: int, basis: int, hidden: Hidden) -> None:
        harmonics = Irreps.signal(lmax)
        kinds = [ir for _, ir in harmonics]
        if any(l > 0 for _, (l, _) in irreps_in):
            kinds += [(l, -p) for l, p in kinds if l > 0]
        irreps_out = Irreps([(irreps_in.terms[0][0], ir) for ir in kinds])
        with allow_unreached():  # one function holds irreps of either parity
            product = tp.make("vector_signal", irreps_in, harmonics, irreps_out)
        super().__init__(irreps_in, irreps_out, product, basis, hidden)
