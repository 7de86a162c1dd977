"""Interaction block: one round of messages, by the name of their product."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn

from equigeo import tensor_products as tp
from equigeo._core.tensors import plain_tensors
from equigeo.graphs import EdgeIndex
from equigeo.nn import Gate, Linear, RadialMLP, Tables
from equigeo.nn.module import allow_unreached
from equigeo.nn.radial_table import RadialTable
from equigeo.nn.tables import IndexTables
from equigeo.potentials.batch import AtomicBatch, sum_by_system
from equigeo.potentials.config import DEGREES, PotentialConfig
from equigeo.reps import Irreps
from equigeo.reps.irreps import Irrep, MulIr
from equigeo.reps.wigner import wigner_3j_table
from equigeo.tensor_products.products.convolution import convolve_splines, scaled_radial


@dataclass(frozen=True)
class EdgeFeatures:
    """Edge features that messages read."""

    edges: EdgeIndex  # from senders to receivers, sorted by target
    vectors: Tensor  # (edges, 3) from senders to receivers
    harmonics: Tensor  # (edges, (lmax_edge + 1)^2), normalization "component"
    radial: Tensor  # (edges, radial_basis), smoothly zero at the cutoff; (edges,) if tabulated

    @property
    def source(self) -> Tensor:
        """Senders, (edges,), in the order of the features."""
        return self.edges.edge_index[0]


class Messages(nn.Module, ABC):
    """Messages along edges, summed at their targets; O(3)-equivariant unless documented."""

    radial: RadialMLP | RadialTable

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

    def weights(self, radial: Tensor) -> Tensor:
        """Return what the radial functions of edges weight by, (edges, numbers)."""
        return self.radial(radial)

    def tabulate(self, features: Callable[[Tensor], Tensor], cutoff: float) -> None:
        """Replace the network of features (n, radial_basis) by splines of distances (n,)."""
        exact, dtype = copy.deepcopy(self).double(), next(self.radial.parameters()).dtype
        self.radial = RadialTable.fit(lambda r: exact.weights(features(r)), (0.0, cutoff), dtype)


def weights_of_distances(config: PotentialConfig, outputs: int) -> RadialMLP:
    """Build a radial network with outputs that vanish smoothly where its inputs do."""
    # Without biases, which would not vanish at the cutoff.
    sizes = [config.radial_basis, *config.radial_hidden, outputs]
    return RadialMLP(sizes, nn.functional.silu)


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

    def __init__(self, irreps_in: Irreps, config: PotentialConfig) -> None:
        harmonics, sizes = Irreps.signal(config.lmax_edge), config.radial_hidden
        conv = tp.ChannelwiseConv(irreps_in, harmonics, harmonics, num_hidden=sizes[-1])
        super().__init__(irreps_in, conv.irreps_out)
        self.conv = conv
        self.radial = RadialMLP([config.radial_basis, *sizes], nn.functional.silu, out_act=True)

    def forward(self, h: Tensor, edge: EdgeFeatures) -> Tensor:
        if isinstance(self.radial, RadialTable):
            spline = self.radial.spline(edge.radial)
            return convolve_splines(self.conv, h, edge.edges, edge.harmonics, spline)
        return self.conv(h, edge.edges, edge.harmonics, self.radial(edge.radial))

    def weights(self, radial: Tensor) -> Tensor:
        return self.radial(radial) @ scaled_radial(self.conv.radial)


class ProductMessages(Messages):
    """Products in memory, weighted copy by copy and summed."""

    def __init__(
        self,
        irreps_in: Irreps,
        irreps_out: Irreps,
        product: nn.Module,  # of a feature and harmonics
        config: PotentialConfig,
    ) -> None:
        super().__init__(irreps_in, irreps_out)
        self.product = product
        self.radial = weights_of_distances(config, irreps_out.num_irreps)
        self.positions = IndexTables(copies=copies_of(irreps_out))

    def forward(self, h: Tensor, edge: EdgeFeatures) -> Tensor:
        messages = self.product(h.index_select(0, edge.source), edge.harmonics)
        weights = self.radial(edge.radial).index_select(1, self.positions["copies"])
        return sum_at_targets(messages * weights, edge.edges)


@final
class FullMessages(ProductMessages):
    """The function of `ChannelwiseMessages`, with all messages in memory."""

    def __init__(self, irreps_in: Irreps, config: PotentialConfig) -> None:
        harmonics = Irreps.signal(config.lmax_edge)
        product = tp.FullTensorProduct(irreps_in, harmonics, [ir for _, ir in harmonics])
        super().__init__(irreps_in, product.irreps_out, product, config)


@final
class SO2Messages(Messages):
    """SO(2) convolutions in edge frames as in eSCN, over all paths and pairs of channels."""

    def __init__(self, irreps_in: Irreps, config: PotentialConfig) -> None:
        channels = irreps_in.terms[0][0]
        irreps_out = Irreps([(channels, ir) for _, ir in Irreps.signal(config.lmax_edge)])
        super().__init__(irreps_in, irreps_out)
        self.conv = tp.SO2Conv(irreps_in, irreps_out, modulation="order")
        self.radial = weights_of_distances(config, self.conv.weight_numel)

    def forward(self, h: Tensor, edge: EdgeFeatures) -> Tensor:
        return self.conv(h, edge.edges, edge.vectors, self.radial(edge.radial))


@final
class VectorSignalMessages(ProductMessages):
    """Products of vector functions on the sphere, which yield irreps of either parity."""

    def __init__(self, irreps_in: Irreps, config: PotentialConfig) -> None:
        harmonics = Irreps.signal(config.lmax_edge)
        kinds = [ir for _, ir in harmonics]
        if any(l > 0 for _, (l, _) in irreps_in):
            kinds += [Irrep(l, -p) for l, p in kinds if l > 0]
        irreps_out = Irreps([(irreps_in[0].mul, ir) for ir in kinds])
        with allow_unreached():  # one function holds irreps of either parity
            product = tp.make("vector_signal", irreps_in, harmonics, irreps_out)
        super().__init__(irreps_in, irreps_out, product, config)


Signals = tp.GauntTensorProduct | tp.CurlTensorProduct | tp.MatrixTensorProduct

_ZERO = 1e-20  # squared strengths are rounding below, and at least 1e-6 above


@final
class SignalMessages(Messages):
    """Products of feature channels and edge vectors, both as functions on the sphere."""

    degrees: Tensor

    def __init__(
        self,
        irreps_in: Irreps,  # terms of one multiplicity
        config: PotentialConfig,
        names: Sequence[str],  # "gaunt", "curl" (Poisson bracket), "matrix" (only SO(3))
    ) -> None:
        # m_ic = sum_{e: j -> i} h_jc * F_c(v_e) with F_c(v) = sum_lm R_cl(|v|) Y_lm(v). Features of
        # the other parity than their degree are a second function.
        channels, lmax = irreps_in.terms[0][0], config.lmax_edge
        held: dict[int, list[int]] = {}  # degrees by the parity of values
        for _, (l, p) in irreps_in:
            held.setdefault(p * (-1) ** l, []).append(l)
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
        self.radial = weights_of_distances(config, len(made) * channels * (lmax + 1))
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


_READOUT = 16  # hidden units of the last readout, as in MACE


@final
class Interaction(nn.Module):
    """Messages, node update by species, and a skip connection."""

    def __init__(
        self,
        config: PotentialConfig,
        irreps_in: Irreps,  # of the features, of one multiplicity
        *,
        last: bool,  # only what is read is returned, with a nonlinear read-out
    ) -> None:
        super().__init__()
        channels, species = config.channels, len(config.species)
        product = config.product
        if product in ("curl", "gaunt+curl") and all(l == 0 for _, (l, _) in irreps_in):
            product = "gaunt"  # a product with a scalar is a scaling, except the bracket: zero
        messages = _MESSAGES[product](irreps_in, config)
        made = {ir for _, ir in messages.irreps_out}
        received = _features(channels, config.lmax_edge, made, made)
        self.irreps_in = irreps_in
        # Scalars first; irreps of the other parity last, and only those that the product makes.
        self.irreps_out = _features(channels, config.lmax_hidden, made)
        if last:
            degrees = [0, *(DEGREES[name] for name in config.outputs)]
            wanted = {Irrep(l, (-1) ** l) for l in degrees}
            self.irreps_out = _features(channels, max(degrees), made, wanted)
        self.mix_in = Linear(irreps_in, irreps_in)
        self.messages = messages
        self.mix_received = Linear(messages.irreps_out, received)
        kinds: dict[str, Callable[..., nn.Module]]
        kinds = {"contraction": tp.SymmetricContraction, "gaunt": SignalPowers, "gate": GateUpdate}
        options = () if config.node == "gate" else (config.correlation, species)
        # called as update(a, species) and zero at zero
        self.update = kinds[config.node](received, self.irreps_out, *options)
        self.mix_out = Linear(self.irreps_out, self.irreps_out)
        self.skip = SpeciesLinear(irreps_in, self.irreps_out, species)
        hidden = [_READOUT] if last else []
        self.readout = RadialMLP([channels, *hidden, 1], nn.functional.silu if last else None)

    def forward(
        self,
        h: Tensor,  # (atoms, irreps_in.dim)
        species: Tensor,  # (atoms,) positions in the list of species
        edge: EdgeFeatures,
        avg_neighbors: Tensor,  # divisor of sums
        sent: Tensor | None = None,  # (sources, irreps_in.dim), by default of the atoms
    ) -> Tensor:
        """Update the features of atoms, (atoms, irreps_out.dim)."""
        sent = self.mix_in(h) if sent is None else sent
        received = self.messages(sent, edge) / avg_neighbors
        updated = self.update(self.mix_received(received), species)
        return self.skip(h, species, self.mix_out(updated))

    def read(self, h: Tensor) -> Tensor:
        """Return the energy of atoms, (atoms,), read from the scalars, in units of the scale."""
        out: Tensor = self.readout(h[:, : self.readout.sizes[0]])
        return out.squeeze(-1)

    def last_inputs(self, h: Tensor) -> Tensor:
        """Return what the last layer of the readout multiplies by its weights, (atoms, n)."""
        x = h[:, : self.readout.sizes[0]]
        for layer in [*self.readout.children()][:-1]:
            x = layer(x)
        return x


@final
class Moments(nn.Module):
    """Dipoles and polarizabilities of systems, linear in the features of their atoms."""

    fixed: Tensor

    def __init__(self, irreps_in: Irreps, outputs: Sequence[str]) -> None:
        super().__init__()
        kinds = {name: Irreps(f"0e + {l}{'eo'[l % 2]}") for name, l in DEGREES.items()}
        self.read = nn.ModuleDict({name: Linear(irreps_in, kinds[name]) for name in outputs})
        # Whether all systems have one charge, of a potential that is fixed to it, and which.
        self.register_buffer("fixed", torch.zeros(2, dtype=torch.int64))
        # Orthogonal basis of symmetric matrices: the identity, and five without a trace.
        with plain_tensors():
            rest = math.sqrt(5) * wigner_3j_table(1, 1, 2).permute(2, 0, 1)
            one = torch.eye(3, dtype=torch.float64)[None]
            self.tables = Tables(matrices=torch.cat([one, rest]))

    def forward(
        self,
        h: Tensor,  # (atoms, irreps_in.dim)
        batch: AtomicBatch,
    ) -> dict[str, Tensor]:
        """Return what is read, by name, in float64."""
        rows = {name: linear(h).double() for name, linear in self.read.items()}
        return {name: getattr(self, f"_{name}")(x, batch) for name, x in rows.items()}

    def _dipole(self, rows: Tensor, batch: AtomicBatch) -> Tensor:
        """Return dipoles of charges, whose sums are those of the systems, and of atoms."""
        total = self.fixed[1]
        if batch.charge is not None:
            total = torch.where(self.fixed[0] > 0, total, batch.charge)
        missing = (total - sum_by_system(rows[:, 0], batch)) / batch.ptr.diff().clamp(min=1)
        charges = rows[:, 0] + missing.index_select(0, batch.batch)
        moments = charges[:, None] * batch.positions.double() + rows[:, 1:]
        periodic = batch.pbc.any(dim=1)[:, None]
        return torch.where(periodic, torch.nan, sum_by_system(moments, batch))

    def _polarizability(self, rows: Tensor, batch: AtomicBatch) -> Tensor:
        return torch.einsum(
            "sk,kab->sab", sum_by_system(rows, batch), self.tables["matrices", rows.dtype]
        )


@final
class SpeciesLinear(nn.Module):
    """One linear map per species between the irreps that both sides have."""

    def __init__(
        self,
        irreps_in: Irreps,  # terms of one multiplicity
        irreps_out: Irreps,  # starts with the common irreps
        num_species: int,  # number of maps
    ) -> None:
        super().__init__()
        held = {ir for _, ir in irreps_in}
        common = Irreps([term for term in irreps_out if term[1] in held])
        # All maps side by side: elements are few, and no matrix is copied for each atom.
        self.linear = Linear(irreps_in, Irreps([*common] * num_species))
        self.num_species = num_species
        self.dim, self.dim_out = common.dim, irreps_out.dim

    def forward(
        self,
        h: Tensor,  # (atoms, irreps_in.dim)
        species: Tensor,  # (atoms,)
        beside: Tensor | None = None,  # (atoms, irreps_out.dim)
    ) -> Tensor:
        """Apply the map of each atom's species and add ``beside``, (atoms, irreps_out.dim)."""
        everything = self.linear(h).unflatten(-1, (self.num_species, self.dim))
        chosen = everything.gather(1, species[:, None, None].expand(-1, 1, self.dim)).squeeze(1)
        padded = nn.functional.pad(chosen, (0, self.dim_out - self.dim))
        return padded if beside is None else padded + beside


def _features(
    channels: int, lmax: int, made: set[Irrep], wanted: set[Irrep] | None = None
) -> Irreps:
    """Return irreps up to a degree: those of its parity, and those of the other that are made."""
    first = [(l, (-1) ** l) for l in range(lmax + 1)]
    other = [(l, -p) for l, p in first if l > 0 and (l, -p) in made]
    kinds = [ir for ir in [*first, *other] if wanted is None or ir in wanted]
    return Irreps([(channels, ir) for ir in kinds])


@final
class GateUpdate(nn.Module):
    """Linear map and gated nonlinearity, equal for all species."""

    def __init__(self, irreps_in: Irreps, irreps_out: Irreps) -> None:
        super().__init__()
        scalars = irreps_out.filter(lmax=0)
        gated = irreps_out.filter(drop=scalars)
        gates = Irreps([(mul, (0, 1)) for mul, _ in gated])
        acts = [nn.functional.silu if p == 1 else torch.tanh for _, (_, p) in scalars]
        self.gate = Gate(scalars, acts, gates, [torch.sigmoid] * len(gates.terms), gated)
        self.mix = Linear(irreps_in, self.gate.irreps_in)

    def forward(
        self,
        a: Tensor,  # (nodes, irreps_in.dim)
        species: Tensor,  # (nodes,), unused
    ) -> Tensor:
        """Apply the update, (nodes, irreps_out.dim)."""
        return self.gate(self.mix(a))


@final
class SignalPowers(nn.Module):
    """Powers of each channel as a function on the sphere, weighted per species and degree."""

    def __init__(
        self,
        irreps_in: Irreps,  # one multiplicity, irreps with the parity of their degree first
        irreps_out: Irreps,
        correlation: int,  # highest power
        num_species: int,  # number of sets of weights
    ) -> None:
        super().__init__()
        # B_cl = sum_nu w^nu_zcl (A_c^nu)_l (Luo, Chen and Krishnapriyan, ICLR 2024). Irreps of the
        # other parity are a second function g: even powers of g in (f + g)^nu have the first
        # parity, odd powers the second.
        self.irreps_in, self.irreps_out = irreps_in, irreps_out
        self.channels = irreps_in.terms[0][0]
        self.lmax_in = max(l for _, (l, _) in irreps_in)
        lmax = max(l for _, (l, _) in irreps_out)
        self.two = any(map(_is_second, irreps_in))
        # The last power is needed up to lmax alone, and each before it only as far as it counts.
        reach = [
            min(nu * self.lmax_in, lmax + (correlation - nu) * self.lmax_in)
            for nu in range(1, correlation + 1)
        ]
        self.products = nn.ModuleList(
            tp.GauntTensorProduct(low, self.lmax_in, high) for low, high in pairwise(reach)
        )
        # A function of unit coefficients has that standard deviation at each point.
        self._scale = 1 / math.sqrt((self.lmax_in + 1) ** 2)
        shape = (num_species, correlation, len(irreps_out.terms), self.channels)
        self.weight = nn.Parameter(torch.randn(shape) / correlation)

    def forward(
        self,
        a: Tensor,  # (nodes, irreps_in.dim)
        species: Tensor,  # (nodes,)
    ) -> Tensor:
        """Apply the update, (nodes, irreps_out.dim)."""
        first, second = (signal_of(a, self.irreps_in, p, self.lmax_in) for p in (1, -1))
        base = torch.stack([first + second, first - second]) if self.two else first
        power, out = base, self._weighted(base, species, 0)
        for k, product in enumerate(self.products):
            power = product(power, base) * self._scale
            out = out + self._weighted(power, species, k + 1)
        return out

    def _weighted(self, power: Tensor, species: Tensor, k: int) -> Tensor:
        """Select the requested degrees and parities of a power and weight them."""
        weight = self.weight[:, k].index_select(0, species)
        parts = []
        for i, term in enumerate(self.irreps_out):
            l = term[1][0]
            if (l + 1) ** 2 > power.shape[-1]:
                parts.append(power.new_zeros(species.shape[0], self.channels * (2 * l + 1)))
                continue
            values = power[..., l * l : (l + 1) ** 2]
            if self.two:
                sign = -1 if _is_second(term) else 1
                values = (values[0] + sign * values[1]) / 2
            parts.append((values * weight[:, i, :, None]).flatten(1))
        return torch.cat(parts, dim=-1)


def _is_second(term: MulIr) -> bool:
    """Return whether the parity differs from that of the degree."""
    _, (l, p) = term
    return p != (-1) ** l
