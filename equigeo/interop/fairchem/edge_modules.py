"""Converted fairchem layers with a radial network: the network and a layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equigeo.graphs import EdgeIndex
from equigeo.reps import Irreps
from equigeo.tensor_products import ChannelwiseConv, SO2Conv, SphericalHarmonics


class RadialConvolution(nn.Module):
    """A convolution by orders with a network that computes its modulation."""

    def __init__(
        self,
        conv: SO2Conv,  # with a modulation
        radial: nn.Module,  # maps edge features to conv.weight_numel factors
    ) -> None:
        super().__init__()
        self.conv, self.radial = conv, radial
        self.irreps_in, self.irreps_out = conv.irreps_in, conv.irreps_out

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor | None],
        edge_index: EdgeIndex | Tensor,
        edge_vec: Tensor,
        edge_features: Tensor,  # (edges, features), inputs of the network
        *,
        envelope: Tensor | None = None,
        num_nodes: int | None = None,
    ) -> Tensor:  # (targets, irreps_out.dim)
        """Convolve; other arguments as of ``SO2Conv.forward``."""
        weights = self.radial(edge_features)
        out: Tensor = self.conv(
            x, edge_index, edge_vec, weights, envelope=envelope, num_nodes=num_nodes
        )
        return out


class EdgeDegreeEmbedding(nn.Module):
    """Sum of harmonics over neighbours with coefficients from a network."""

    # z_tlc = sum over edges e to t of c_e s_lc(e) Y^l(u_e) / rescale
    def __init__(
        self,
        radial: nn.Module,  # maps edge features to (lmax + 1) * channels coefficients
        irreps_out: Irreps,
        rescale: float,  # divisor of the sums
    ) -> None:
        super().__init__()
        channels, layout = irreps_out.terms[0][0], irreps_out.layout
        degrees = Irreps([(1, ir) for _, ir in irreps_out])
        self.radial, self.channels, self.irreps_out = radial, channels, irreps_out
        self.harmonics = SphericalHarmonics(degrees, True, "component")
        scalars = Irreps([(channels, (0, 1))], layout)
        edge = degrees.with_layout(layout)
        self.conv = ChannelwiseConv(scalars, edge, irreps_out, layout=layout)
        # The coupling of a scalar takes the component normalization of harmonics to the norm.
        factors = [1 / (ins.path_weight * rescale) for ins in self.conv.product.instructions]
        self._factors = [factor for factor in factors for _ in range(channels)]

    def forward(
        self,
        edge_index: EdgeIndex | Tensor,  # (2, edges), sources and targets
        edge_vec: Tensor,  # (edges, 3)
        edge_features: Tensor,  # (edges, features)
        num_nodes: int | None = None,  # required if edge_index is a tensor
        *,
        envelope: Tensor | None = None,  # (edges,)
    ) -> Tensor:  # (targets, irreps_out.dim)
        """Embed the edges of each node; fairchem adds the result to node features."""
        sources = edge_index.num_sources if isinstance(edge_index, EdgeIndex) else num_nodes
        if sources is None:
            raise ValueError("num_nodes must be given where edge_index is a tensor, got None")
        weights = self.radial(edge_features)
        weights = weights * weights.new_tensor(self._factors)
        if envelope is not None:
            weights = weights * envelope[:, None]
        ones = torch.ones(sources, self.channels, dtype=weights.dtype, device=weights.device)
        out: Tensor = self.conv(
            ones, edge_index, self.harmonics(edge_vec), weights, num_nodes=num_nodes
        )
        return out
