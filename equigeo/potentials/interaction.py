"""Interaction block: one round of messages."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn

from equigeo import tensor_products as tp
from equigeo.nn import Gate, Linear, RadialMLP
from equigeo.potentials.config import PotentialConfig
from equigeo.potentials.messages import EdgeFeatures, make_messages, signal_of
from equigeo.reps import Irreps

Kind = tuple[int, int]  # degree and parity
_READOUT = 16  # hidden units of the last readout, as in MACE


@final
class Interaction(nn.Module):
    """Messages, node update by species, and a skip connection."""

    def __init__(
        self,
        config: PotentialConfig,
        irreps_in: Irreps,  # of the features
        *,
        last: bool,  # only scalars are returned, with a nonlinear read-out
    ) -> None:
        super().__init__()
        channels, species = config.channels, len(config.species)
        messages = make_messages(
            config.product,
            irreps_in,
            config.lmax_edge,
            config.radial_basis,
            config.radial_hidden,
        )
        made = {ir for _, ir in messages.irreps_out}
        received = _features(channels, config.lmax_edge, made, made)
        self.irreps_in = irreps_in
        # Scalars first; irreps of the other parity last, and only those that the product makes.
        self.irreps_out = _features(channels, 0 if last else config.lmax_hidden, made)
        self.mix_in = Linear(irreps_in, irreps_in)
        self.messages = messages
        self.mix_received = Linear(messages.irreps_out, received)
        self.update = make_node_update(
            config.node, received, self.irreps_out, config.correlation, species
        )
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
    ) -> Tensor:
        """Update the features of atoms, (atoms, irreps_out.dim)."""
        received = self.messages(self.mix_in(h), edge) / avg_neighbors
        updated = self.update(self.mix_received(received), species)
        return self.skip(h, species, self.mix_out(updated))

    def read(self, h: Tensor) -> Tensor:
        """Return the energy of atoms, (atoms,), read from the scalars, in units of the scale."""
        out: Tensor = self.readout(h[:, : self.readout.sizes[0]])
        return out.squeeze(-1)


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


def _features(channels: int, lmax: int, made: set[Kind], wanted: set[Kind] | None = None) -> Irreps:
    """Return irreps up to a degree: those of its parity, and those of the other that are made."""
    first = [(l, (-1) ** l) for l in range(lmax + 1)]
    other = [(l, -p) for l, p in first if l > 0 and (l, -p) in made]
    kinds = [ir for ir in [*first, *other] if wanted is None or ir in wanted]
    return Irreps([(channels, ir) for ir in kinds])


def make_node_update(
    name: str,  # "contraction", "gaunt" or "gate"
    irreps_in: Irreps,  # terms of one multiplicity, as in irreps_out
    irreps_out: Irreps,
    correlation: int,  # highest power, except for "gate"
    num_species: int,  # number of sets of weights, except for "gate"
) -> nn.Module:
    """Build a node update, called as ``update(a, species)`` and zero at zero."""
    if name == "contraction":
        return tp.SymmetricContraction(irreps_in, irreps_out, correlation, num_species)
    if name == "gaunt":
        return SignalPowers(irreps_in, irreps_out, correlation, num_species)
    return GateUpdate(irreps_in, irreps_out)


@final
class GateUpdate(nn.Module):
    """Linear map and gated nonlinearity, equal for all species."""

    def __init__(self, irreps_in: Irreps, irreps_out: Irreps) -> None:
        super().__init__()
        scalars = Irreps([term for term in irreps_out if term[1][0] == 0])
        gated = Irreps([term for term in irreps_out if term[1][0] > 0])
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
        out: Tensor = self.gate(self.mix(a))
        return out


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


def _is_second(term: tuple[int, Kind]) -> bool:
    """Return whether the parity differs from that of the degree."""
    _, (l, p) = term
    return p != (-1) ** l
