"""One round of messages."""

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
    """Messages, their sum, a nonlinearity that depends on the species, and what was there before.

    Parameters
    ----------
    config : PotentialConfig
        Of the potential.
    irreps_in : Irreps
        Of the features.
    last : bool
        Whether only scalars are wanted, and are read by a network instead of a linear map.

    Attributes
    ----------
    irreps_out : Irreps
        Scalars first; irreps whose parity is not that of their degree last, and only where the
        product makes them.
    """

    def __init__(self, config: PotentialConfig, irreps_in: Irreps, *, last: bool) -> None:
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
        self, h: Tensor, species: Tensor, edge: EdgeFeatures, avg_neighbors: Tensor
    ) -> Tensor:
        """Update the features of atoms.

        Parameters
        ----------
        h : Tensor, (atoms, irreps_in.dim), floating
            Features.
        species : Tensor, (atoms,), int64
            Positions in the list of species.
        edge : EdgeFeatures
            What is known of edges.
        avg_neighbors : Tensor, (), floating
            What sums are divided by.

        Returns
        -------
        Tensor, (atoms, irreps_out.dim)
            New features.
        """
        received = self.messages(self.mix_in(h), edge) / avg_neighbors
        updated = self.update(self.mix_received(received), species)
        return self.skip(h, species, self.mix_out(updated))

    def read(self, h: Tensor) -> Tensor:
        """Read an energy off the scalars of new features, (atoms,), in units of the scale."""
        out: Tensor = self.readout(h[:, : self.readout.sizes[0]])
        return out.squeeze(-1)


@final
class SpeciesLinear(nn.Module):
    """Linear maps, one for each species, between the irreps that both sides have.

    Parameters
    ----------
    irreps_in, irreps_out : Irreps
        Terms of one multiplicity; those of both come first in ``irreps_out``.
    num_species : int
        Number of maps.
    """

    def __init__(self, irreps_in: Irreps, irreps_out: Irreps, num_species: int) -> None:
        super().__init__()
        held = {ir for _, ir in irreps_in}
        common = Irreps([term for term in irreps_out if term[1] in held])
        # All maps side by side: elements are few, and no matrix is copied for each atom.
        self.linear = Linear(irreps_in, Irreps([*common] * num_species))
        self.num_species = num_species
        self.dim, self.dim_out = common.dim, irreps_out.dim

    def forward(self, h: Tensor, species: Tensor, beside: Tensor | None = None) -> Tensor:
        """Map features.

        Parameters
        ----------
        h : Tensor, (atoms, irreps_in.dim), floating
            Features.
        species : Tensor, (atoms,), int64
            Which map each takes.
        beside : Tensor, (atoms, irreps_out.dim), optional
            What the result is added to.

        Returns
        -------
        Tensor, (atoms, irreps_out.dim)
            Zero in irreps that are new.
        """
        everything = self.linear(h).unflatten(-1, (self.num_species, self.dim))
        chosen = everything.gather(1, species[:, None, None].expand(-1, 1, self.dim)).squeeze(1)
        padded = nn.functional.pad(chosen, (0, self.dim_out - self.dim))
        return padded if beside is None else padded + beside


def _features(channels: int, lmax: int, made: set[Kind], wanted: set[Kind] | None = None) -> Irreps:
    """Irreps up to a degree: those with its parity, and those with the other that are made."""
    first = [(l, (-1) ** l) for l in range(lmax + 1)]
    other = [(l, -p) for l, p in first if l > 0 and (l, -p) in made]
    kinds = [ir for ir in [*first, *other] if wanted is None or ir in wanted]
    return Irreps([(channels, ir) for ir in kinds])
