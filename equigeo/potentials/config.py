"""Configuration of an interatomic potential."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from equigeo.nn.config import Config
from equigeo.nn.value_range import Range

ProductName = Literal[
    "channelwise", "full", "gaunt", "curl", "gaunt+curl", "matrix", "vector_signal", "so2"
]
NodeName = Literal["contraction", "gaunt", "gate"]


@dataclass(frozen=True)
class PotentialConfig(Config):
    """Configuration of a :class:`equigeo.potentials.MessagePassingPotential`.

    Parameters
    ----------
    species : tuple of int
        Atomic numbers of the elements that the potential knows, ascending.
    cutoff : float
        Distance at which interactions end, in angstrom.
    channels : int
        Copies of each irrep of a feature.
    lmax_edge : int
        Largest degree of spherical harmonics and of what is summed over neighbours.
    lmax_hidden : int
        Largest degree of features between two layers.
    layers : int
        Rounds of messages: energies depend on what is within so many cutoffs.
    product : str
        How a neighbour's feature and the direction to it make a message: "channelwise" and "full",
        which are the same function, the latter with all messages in memory; "gaunt", "curl",
        "gaunt+curl", "matrix" or "vector_signal", products of signals on the sphere; "so2", which
        mixes channels order by order in the frames of edges. "matrix" mixes parities, so that
        energies are invariant under rotations only.
    node : {"contraction", "gaunt", "gate"}
        What is made of the sum: the symmetric contraction of MACE, powers of it as a signal on the
        sphere, or the gated nonlinearity of NequIP.
    correlation : int
        Highest power of the sum, for "contraction" and "gaunt".
    radial_basis : int
        Number of Bessel functions.
    radial_hidden : tuple of int
        Widths of the network that makes weights of distances.
    avg_neighbors : float
        Mean number of neighbours in the training set, by which sums are divided.

    Raises
    ------
    ValueError
        If elements are not ascending, or a number or a name is out of range.

    Examples
    --------
    >>> config = PotentialConfig(species=(1, 6, 8), channels=16)
    >>> PotentialConfig.from_dict(config.to_dict()) == config
    True
    >>> PotentialConfig(species=(6, 1))
    Traceback (most recent call last):
    ValueError: species must be ascending atomic numbers, got (6, 1)
    """

    species: tuple[int, ...]
    cutoff: float = 5.0
    channels: int = 32
    lmax_edge: int = 3
    lmax_hidden: int = 1
    layers: int = 2
    product: ProductName = "channelwise"
    node: NodeName = "contraction"
    correlation: int = 3
    radial_basis: int = 8
    radial_hidden: tuple[int, ...] = (64, 64)
    avg_neighbors: float = 1.0

    title: ClassVar[str] = "the configuration of a potential"
    ranges: ClassVar[Mapping[str, Range]] = {
        "species": Range(1, 118, entries=118),
        "cutoff": Range(0.0, 1e3, above=True),
        "channels": Range(1, 4096),
        "lmax_edge": Range(0, 10),
        "lmax_hidden": Range(0, 10),
        "layers": Range(1, 32),
        "correlation": Range(1, 4),
        "radial_basis": Range(1, 256),
        "radial_hidden": Range(1, 4096),
        "avg_neighbors": Range(0.0, 1e6, above=True),
    }

    def __post_init__(self) -> None:
        """Validate combinations of fields beyond types and ranges."""
        super().__post_init__()
        species = list(self.species)
        if not species or species != sorted(set(species)):
            raise ValueError(f"species must be ascending atomic numbers, got {self.species}")
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
