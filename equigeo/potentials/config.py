"""Configuration of an interatomic potential."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from equigeo._core.brief import shown
from equigeo._core.checks import STATE_RANGE, USUAL_STATE
from equigeo._core.config import Config, within

ProductName = Literal[
    "channelwise", "full", "gaunt", "curl", "gaunt+curl", "matrix", "vector_signal", "so2"
]
NodeName = Literal["contraction", "gaunt", "gate"]
OutputName = Literal["dipole", "polarizability"]

DEGREES: Final = {"dipole": 1, "polarizability": 2}
"""Outputs beside energies, by the largest degree of their irreps."""


@dataclass(frozen=True)
class PotentialConfig(Config):
    """Configuration of a :class:`equigeo.potentials.MessagePassingPotential`.

    Lengths are in angstrom, energies of the potential in eV.

    Parameters
    ----------
    species : tuple of int
        Atomic numbers of the known elements, ascending.
    cutoff : float
        Range of interactions, in angstrom.
    channels : int
        Copies of each irrep of a feature.
    lmax_edge : int
        Largest degree of spherical harmonics and of messages.
    lmax_hidden : int
        Largest degree of features between two layers, at most ``lmax_edge``.
    layers : int
        Rounds of messages: energies depend on atoms within this number of cutoffs.
    product : str
        Product of a neighbor's feature and its direction: "channelwise" or "full", the same
        function, the latter with all messages in memory; "gaunt", "curl", "gaunt+curl", "matrix" or
        "vector_signal", products of signals on the sphere; "so2", which mixes channels in the
        frames of edges. With "matrix", energies are invariant under rotations only.
    node : {"contraction", "gaunt", "gate"}
        Nonlinearity of the sum: the symmetric contraction of MACE, powers as a signal on the
        sphere, or the gate of NequIP.
    correlation : int
        Highest power of the sum, for "contraction" and "gaunt".
    radial_basis : int
        Number of Bessel functions.
    radial_hidden : tuple of int
        Widths of the network of distances.
    avg_neighbors : float
        Mean number of neighbors in the training set: divisor of sums.
    zbl : bool
        Replace the network by the screened repulsion of nuclei (Ziegler, Biersack and Littmark)
        where atoms are close: from 0.8 times the sum of their covalent radii, features and energies
        of both fade out, and are zero below half of this distance. Atoms that approach each other
        more closely than in any training frame then repel.
    charges, spins : tuple of int
        Known total charges in units of e, and known spin multiplicities (one more than the number
        of unpaired electrons), ascending, of which one is not 0 or 1: inputs of the potential. Each
        adds features to the atoms of a system, divided by their number. Empty: no such input.
    outputs : tuple of {"dipole", "polarizability"}
        Results beside energies and their derivatives, which need degrees 1 and 2 of messages.

    Examples
    --------
    >>> config = PotentialConfig(species=(1, 6, 8), channels=16)
    >>> PotentialConfig.from_dict(config.to_dict()) == config
    True
    """

    species: tuple[int, ...] = within(1, 118, entries=118)
    cutoff: float = within(0.0, 1e3, above=True, default=5.0)
    channels: int = within(1, 4096, default=32)
    lmax_edge: int = within(0, 10, default=3)
    lmax_hidden: int = within(0, 10, default=1)
    layers: int = within(1, 32, default=2)
    product: ProductName = "channelwise"
    node: NodeName = "contraction"
    correlation: int = within(1, 4, default=3)
    radial_basis: int = within(1, 256, default=8)
    radial_hidden: tuple[int, ...] = within(1, 4096, default=(64, 64))
    avg_neighbors: float = within(0.0, 1e6, above=True, default=1.0)
    zbl: bool = False
    charges: tuple[int, ...] = within(*STATE_RANGE["charge"], default=())
    spins: tuple[int, ...] = within(1, STATE_RANGE["spin"][1], default=())
    outputs: tuple[OutputName, ...] = ()

    title: ClassVar[str] = "the configuration of a potential"

    def __post_init__(self) -> None:
        super().__post_init__()
        species = list(self.species)
        if not species or species != sorted(set(species)):
            raise ValueError(f"species must be ascending atomic numbers, got {self.species}")
        for name, usual in USUAL_STATE.items():
            values = list(getattr(self, f"{name}s"))
            if values != sorted(set(values)) or values == [usual]:
                raise ValueError(
                    f"{name}s must be ascending and have another value than {usual}, got {values}"
                )
        needed = [DEGREES.get(name, -1) for name in self.outputs]
        if len({*self.outputs}) < len(needed) or not all(0 < l <= self.lmax_edge for l in needed):
            raise ValueError(
                f"outputs must be different ones of {', '.join(DEGREES)}, of degrees 1 and 2, with "
                f"lmax_edge at least their degree, got {shown(self.outputs)} and {self.lmax_edge}"
            )
        if self.product == "curl" and self.node == "gate":
            raise ValueError(
                'product "curl" makes no scalars, without which node "gate" is zero: take '
                '"gaunt+curl", or another node'
            )
        if not self.radial_hidden:
            raise ValueError("radial_hidden must have at least one width, got none")
        if self.lmax_hidden > self.lmax_edge:
            raise ValueError(
                f"lmax_hidden must be at most lmax_edge, {self.lmax_edge}, got {self.lmax_hidden}"
            )
