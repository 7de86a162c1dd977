"""Messages by the name of their product."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor, nn

from equigeo import tensor_products as tp
from equigeo._core.tensors import plain_tensors
from equigeo.graphs import EdgeIndex
from equigeo.nn import RadialMLP, Tables
from equigeo.nn.module import allow_unreached
from equigeo.nn.tables import IndexTables
from equigeo.reps import Irreps


@dataclass(frozen=True)
class EdgeFeatures:
    """Edge features that messages read."""

    edges: EdgeIndex  # from senders to receivers, sorted by target
    vectors: Tensor  # (edges, 3) from senders to receivers
    harmonics: Tensor  # (edges, (lmax_edge + 1)^2), normalization "component"
    radial: Tensor  # (edges, radial_basis), smoothly zero at the cutoff

    @property
    def source(self) -> Tensor:
        """Senders, (edges,), in the order of the features."""
        return self.edges.edge_index[0]


class Messages(nn.Module, ABC):
    """Messages along edges, summed at their targets; O(3)-equivariant unless documented."""

    def __init__(self, irreps_in: Irreps, irreps_out: Irreps) -> None:
        super().__init__()
        self.irreps_in = irreps_in
        self.irreps_out = irreps_out

    @abstractmethod
    def forward(
        self,
        h: Tensor,  # (nodes, irreps_in.dim)
        edge: EdgeFeatures,
    ) -> Tensor:
        """Send messages and sum them at their targets, (nodes, irreps_out.dim)."""


def weights_of_distances(
    basis: int,  # number of radial functions
    hidden: tuple[int, ...],  # widths
    outputs: int,  # number of weights
) -> RadialMLP:
    """Build a radial network with outputs that vanish smoothly where its inputs do."""
    # Without biases, which would not vanish at the cutoff.
    return RadialMLP([basis, *hidden, outputs], nn.functional.silu)


def sum_at_targets(
    messages: Tensor,  # (edges, ...) in the given order of edges
    edges: EdgeIndex,
) -> Tensor:
    """Sum messages at the targets of edges, (targets, ...)."""
    empty = messages.new_zeros(edges.num_targets, *messages.shape[1:])
    return empty.index_add(0, edges.edge_index[1], messages)


def signal_of(
    h: Tensor,  # (nodes, irreps.dim)
    irreps: Irreps,  # terms of one multiplicity
    parity: int,  # of values: the parity of an irrep times that of its degree
    lmax: int,
) -> Tensor:
    """Return coefficients of functions on the sphere, (nodes, channels, (lmax + 1)^2)."""
    terms = zip(irreps, irreps.slices(), strict=True)
    found = {l: h[:, piece] for (_, (l, p)), piece in terms if p * (-1) ** l == parity}
    shape = (h.shape[0], irreps.terms[0][0])
    parts = [
        found[l].reshape(*shape, 2 * l + 1) if l in found else h.new_zeros(*shape, 2 * l + 1)
        for l in range(lmax + 1)
    ]
    return torch.cat(parts, dim=-1)


@plain_tensors()
def copies_of(irreps: Irreps) -> Tensor:
    """Return the index of the irrep copy of each component, (irreps.dim,), in ``mul_ir`` layout."""
    sizes = torch.tensor([2 * l + 1 for mul, (l, _) in irreps for _ in range(mul)])
    return torch.repeat_interleave(sizes)


@final
class ChannelwiseMessages(Messages):
    """Channelwise convolution of NequIP and MACE, without messages in memory."""

    def __init__(
        self,
        irreps_in: Irreps,
        lmax: int,  # of harmonics and messages
        basis: int,  # number of radial functions
        hidden: tuple[int, ...],  # widths of the radial network
    ) -> None:
        harmonics = Irreps.signal(lmax)
        conv = tp.ChannelwiseConv(irreps_in, harmonics, harmonics, num_hidden=hidden[-1])
        super().__init__(irreps_in, conv.irreps_out)
        self.conv = conv
        self.radial = RadialMLP([basis, *hidden], nn.functional.silu, out_act=True)

    def forward(self, h: Tensor, edge: EdgeFeatures) -> Tensor:
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
        hidden: tuple[int, ...],
    ) -> None:
        super().__init__(irreps_in, irreps_out)
        self.product = product
        self.radial = weights_of_distances(basis, hidden, sum(mul for mul, _ in irreps_out))
        self.positions = IndexTables(copies=copies_of(irreps_out))

    def forward(self, h: Tensor, edge: EdgeFeatures) -> Tensor:
        messages = self.product(h.index_select(0, edge.source), edge.harmonics)
        weights = self.radial(edge.radial).index_select(1, self.positions["copies"])
        return sum_at_targets(messages * weights, edge.edges)


@final
class FullMessages(ProductMessages):
    """The function of `ChannelwiseMessages`, with all messages in memory."""

    def __init__(self, irreps_in: Irreps, lmax: int, basis: int, hidden: tuple[int, ...]) -> None:
        harmonics = Irreps.signal(lmax)
        product = tp.FullTensorProduct(irreps_in, harmonics, [ir for _, ir in harmonics])
        super().__init__(irreps_in, product.irreps_out, product, basis, hidden)


@final
class SO2Messages(Messages):
    """SO(2) convolutions in edge frames as in eSCN, over all paths and pairs of channels."""

    def __init__(self, irreps_in: Irreps, lmax: int, basis: int, hidden: tuple[int, ...]) -> None:
        channels = irreps_in.terms[0][0]
        irreps_out = Irreps([(channels, ir) for _, ir in Irreps.signal(lmax)])
        super().__init__(irreps_in, irreps_out)
        self.conv = tp.SO2Conv(irreps_in, irreps_out, modulation="order")
        self.radial = weights_of_distances(basis, hidden, self.conv.weight_numel)

    def forward(self, h: Tensor, edge: EdgeFeatures) -> Tensor:
        out: Tensor = self.conv(h, edge.edges, edge.vectors, self.radial(edge.radial))
        return out


@final
class VectorSignalMessages(ProductMessages):
    """Products of vector functions on the sphere, which yield irreps of either parity."""

    def __init__(self, irreps_in: Irreps, lmax: int, basis: int, hidden: tuple[int, ...]) -> None:
        harmonics = Irreps.signal(lmax)
        kinds = [ir for _, ir in harmonics]
        if any(l > 0 for _, (l, _) in irreps_in):
            kinds += [(l, -p) for l, p in kinds if l > 0]
        irreps_out = Irreps([(irreps_in.terms[0][0], ir) for ir in kinds])
        with allow_unreached():  # one function holds irreps of either parity
            product = tp.make("vector_signal", irreps_in, harmonics, irreps_out)
        super().__init__(irreps_in, irreps_out, product, basis, hidden)


Signals = tp.GauntTensorProduct | tp.CurlTensorProduct | tp.MatrixTensorProduct

_ZERO = 1e-20  # squared strengths are rounding below, and at least 1e-6 above


@final
class SignalMessages(Messages):
    """Products of feature channels and edge vectors, both as functions on the sphere."""

    degrees: Tensor

    def __init__(
        self,
        irreps_in: Irreps,  # terms of one multiplicity
        lmax: int,  # of harmonics and messages
        basis: int,  # number of radial functions
        hidden: tuple[int, ...],  # widths of the radial networks
        names: Sequence[str],  # "gaunt", "curl" (Poisson bracket), "matrix" (only SO(3))
    ) -> None:
        # m_ic = sum_{e: j -> i} h_jc * F_c(v_e) with F_c(v) = sum_lm R_cl(|v|) Y_lm(v). Features of
        # the other parity than their degree are a second function.
        channels, held = irreps_in.terms[0][0], _degrees(irreps_in)
        made = [
            (parity, _product(name, (max(degrees), lmax), parity))
            for name in names
            for parity, degrees in held.items()
            if name != "curl" or max(degrees) > 0  # a bracket with a constant is zero
        ]
        scales = [_scales(product, held[parity]) for parity, product in made]
        kinds = [
            ir
            for (_, product), scale in zip(made, scales, strict=True)
            for _, ir in product.irreps_out
            if ir[0] in scale
        ]
        super().__init__(irreps_in, Irreps([(channels, ir) for ir in kinds]))
        self.channels = channels
        self.products = nn.ModuleList(product for _, product in made)
        self._operands = [parity for parity, _ in made]
        self._held = held
        self._kept = [list(scale) for scale in scales]
        self.radial = weights_of_distances(basis, hidden, len(made) * channels * (lmax + 1))
        numbers = torch.arange(lmax + 1, device="cpu")
        self.positions = IndexTables(degrees=numbers.repeat_interleave(2 * numbers + 1))
        self.tables = Tables(**{f"scale{k}": _spread(scale) for k, scale in enumerate(scales)})

    def forward(self, h: Tensor, edge: EdgeFeatures) -> Tensor:
        weights = self.radial(edge.radial).unflatten(-1, (len(self.products), self.channels, -1))
        sent = {
            parity: signal_of(h, self.irreps_in, parity, max(held)).index_select(0, edge.source)
            for parity, held in self._held.items()
        }
        parts, degrees = [], self.positions["degrees"]
        for k, product in enumerate(self.products):
            filters = weights[:, k].index_select(-1, degrees) * edge.harmonics[:, None]
            messages = product(sent[self._operands[k]], filters)
            sums = sum_at_targets(messages, edge.edges) * self.tables[f"scale{k}", h.dtype]
            parts += [sums[..., l * l : (l + 1) ** 2].flatten(1) for l in self._kept[k]]
        return torch.cat(parts, dim=-1)


def _degrees(irreps: Irreps) -> dict[int, list[int]]:
    """Return degrees by value parity: the parity of the irrep times that of its degree."""
    found: dict[int, list[int]] = {}
    for _, (l, p) in irreps:
        found.setdefault(p * (-1) ** l, []).append(l)
    return found


def _product(name: str, degrees: tuple[int, int], parity: int) -> Signals:
    lmax1, lmax2 = degrees
    if name == "gaunt":
        return tp.GauntTensorProduct(lmax1, lmax2, lmax2, parity1=parity)
    if name == "curl":
        return tp.CurlTensorProduct(lmax1, lmax2, lmax2, parity1=parity)
    return tp.MatrixTensorProduct(lmax1, lmax2, lmax2, normalization="component")


def _scales(product: Signals, held: list[int]) -> dict[int, float]:
    """Return the scale of each degree to unit variance, for operands of unit variance."""
    degrees2 = [l for _, (l, _) in product.irreps_in2]
    scales = {}
    for _, (l, _) in product.irreps_out:
        strengths = [product.coefficient(l1, l2, l) for l1 in held for l2 in degrees2]
        # A coupling tensor of unit norm contributes 1 / (2 l + 1) to each component.
        variance = sum(strength**2 for strength in strengths) / (2 * l + 1)
        if variance > _ZERO:
            scales[l] = 1 / math.sqrt(variance)
    return scales


def _spread(scales: dict[int, float]) -> Tensor:
    """Return the scale of each component of a signal; degrees that are never made are not read."""
    values = [scales.get(l, 0.0) for l in range(max(scales) + 1) for _ in range(2 * l + 1)]
    return torch.tensor(values, dtype=torch.float64)


_MESSAGES: dict[str, Callable[..., Messages]] = {
    "channelwise": ChannelwiseMessages,
    "full": FullMessages,
    "so2": SO2Messages,
    "vector_signal": VectorSignalMessages,
    "gaunt": partial(SignalMessages, names=["gaunt"]),
    "curl": partial(SignalMessages, names=["curl"]),
    "gaunt+curl": partial(SignalMessages, names=["gaunt", "curl"]),
    "matrix": partial(SignalMessages, names=["matrix"]),
}


def make_messages(
    name: str,  # as in PotentialConfig
    irreps_in: Irreps,  # terms of one multiplicity
    lmax: int,  # of harmonics and messages
    basis: int,  # number of radial functions
    hidden: tuple[int, ...],  # widths of the radial network
) -> Messages:
    """Build messages by the name of their product."""
    if name in ("curl", "gaunt+curl") and all(l == 0 for _, (l, _) in irreps_in):
        name = "gaunt"  # any product with a scalar is a scaling, except the bracket, which is zero
    return _MESSAGES[name](irreps_in, lmax, basis, hidden)
