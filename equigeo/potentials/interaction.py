"""Interaction block: one round of messages."""

from __future__ import annotations

from typing import final

from torch import Tensor, nn

from equigeo.nn import Linear, RadialMLP
from equigeo.potentials.config import PotentialConfig
from equigeo.potentials.messages.messages_by_name import make_messages
from equigeo.potentials.messages.sum_messages import EdgeFeatures
from equigeo.potentials.node_updates import make_node_update
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
