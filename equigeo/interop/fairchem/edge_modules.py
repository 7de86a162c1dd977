"""What layers of fairchem with a radial network become: it, and the layer of this library."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equigeo.graphs import EdgeIndex
from equigeo.reps import Irreps
from equigeo.tensor_products import ChannelwiseConv, SO2Conv, SphericalHarmonics


class RadialConvolution(nn.Module):
    """A convolution by orders whose modulation a network makes from features of edges.

    Parameters
    ----------
    conv : SO2Conv
        With a modulation.
    radial : Module
        From edge features to the ``conv.weight_numel`` numbers of the modulation.
    """

    def __init__(self, conv: SO2Conv, radial: nn.Module) -> None:
        super().__init__()
        self.conv, self.radial = conv, radial
        self.irreps_in, self.irreps_out = conv.irreps_in, conv.irreps_out

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor | None],
        edge_index: EdgeIndex | Tensor,
        edge_vec: Tensor,
        edge_features: Tensor,
        *,
        envelope: Tensor | None = None,
        num_nodes: int | None = None,
    ) -> Tensor:
        """Convolve.

        Parameters
        ----------
        x, edge_index, edge_vec, envelope, num_nodes
            As in :meth:`equigeo.tensor_products.SO2Conv.forward`.
        edge_features : Tensor, (edges, features)
            What the network takes.

        Returns
        -------
        Tensor, (targets, irreps_out.dim)
            Sums over the edges of each target.
        """
        weights = self.radial(edge_features)
        out: Tensor = self.conv(
            x, edge_index, edge_vec, weights, envelope=envelope, num_nodes=num_nodes
        )
        return out


class EdgeDegreeEmbedding(nn.Module):
    r"""Sum over neighbours of harmonics with coefficients that a network makes.

    .. math:: z_{t l c} = \sum_{e \to t} c_e\, s_{l c}(e)\, Y^l(u_e) / \mathrm{rescale}

    Parameters
    ----------
    radial : Module
        From edge features to ``(lmax + 1) * channels`` numbers, degree by degree.
    irreps_out : Irreps
        Channels of each degree.
    rescale : float
        Divisor of the sums.
    """

    def __init__(self, radial: nn.Module, irreps_out: Irreps, rescale: float) -> None:
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
        edge_index: EdgeIndex | Tensor,
        edge_vec: Tensor,
        edge_features: Tensor,
        *,
        envelope: Tensor | None = None,
        num_nodes: int | None = None,
    ) -> Tensor:
        """Embed the edges of each node; fairchem adds the result to features of the node.

        Parameters
        ----------
        edge_index : EdgeIndex or Tensor, (2, edges), int64
            Row 0 sources, row 1 targets.
        edge_vec : Tensor, (edges, 3)
            The edges in space.
        edge_features : Tensor, (edges, features)
            What the network takes.
        envelope : Tensor, (edges,), optional
            Factor of each edge.
        num_nodes : int, optional
            Number of nodes, needed where ``edge_index`` is a tensor.

        Returns
        -------
        Tensor, (targets, irreps_out.dim)
            Sums over the edges of each target.

        Raises
        ------
        ValueError
            If the number of nodes is not known.
        """
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
