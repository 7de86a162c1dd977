"""Message-passing potential."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, final
from warnings import warn

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from equigeo import tensor_products as tp
from equigeo._core.checks import USUAL_STATE, check_shape
from equigeo._core.config import check_config
from equigeo._core.tensors import plain_tensors, values_readable
from equigeo.graphs import EdgeIndex
from equigeo.groups import SO
from equigeo.nn import BesselBasis, PolynomialCutoff
from equigeo.nn.module import kept_in_float64
from equigeo.nn.state import SavedConfig
from equigeo.nn.tables import IndexTables
from equigeo.potentials.batch import AtomicBatch, PotentialOutput, stress_of, sum_by_system
from equigeo.potentials.config import PotentialConfig
from equigeo.potentials.interaction import EdgeFeatures, Interaction, Moments
from equigeo.potentials.repulsion import Repulsion
from equigeo.reps import Irreps, Representation

_COUNTED = 16.0  # atoms of a system in which features of its charge count fully
SHORTEST_EDGE = 1e-6  # angstrom; the direction of a shorter vector is rounding
_REFERENCES = ("e0", "scale", "avg_neighbors")


@final
class StateEmbedding(nn.Module):
    """Features of the total charges or spins of systems, zero for the usual one and at first."""

    def __init__(self, name: str, known: Sequence[int], channels: int) -> None:
        super().__init__()
        self.name, self.known, self.usual = name, tuple(known), USUAL_STATE[name]
        with plain_tensors():
            values = torch.tensor(self.known)
            self.tables = IndexTables(known=values, others=values[values != self.usual])
        self.weight = nn.Parameter(torch.zeros(len(self.tables["others"]), channels))

    def forward(
        self,
        values: Tensor | None,  # (systems,) int64; None: the usual one
        counts: Tensor,  # (systems,) atoms
    ) -> Tensor:
        """Return features of the atoms of each system, (systems, channels)."""
        values = torch.full_like(counts, self.usual) if values is None else values
        if values_readable(values) and not bool(self.is_known(values).all()):
            unknown = sorted({*values.tolist()} - {*self.known})
            raise ValueError(
                f"{self.name} must be among {list(self.known)}, with which the potential was "
                f"trained, got {unknown}{' by default' * (unknown == [self.usual])}"
            )
        # An energy of ionization does not grow with the number of atoms, nor does its error.
        share = _COUNTED / counts.clamp(min=1).to(self.weight)
        rows = values[:, None] == self.tables["others"]
        return share[:, None] * (rows.to(self.weight) @ self.weight)

    def is_known(self, values: Tensor) -> Tensor:
        """Return which values are known, of the same shape."""
        return (values[..., None] == self.tables["known"]).any(dim=-1)


@final
class MessagePassingPotential(SavedConfig):
    r"""Energy of atoms by message passing, in the framework of MACE and NequIP.

    .. math::
        h_i^0 = W_{z_i}, \qquad
        m_i^t = \frac{1}{\bar n} \sum_{e: j \to i} P\bigl(L h_j^t, Y(v_e); R(r_e)\bigr), \\
        h_i^{t+1} = L\, Q(L m_i^t; z_i) + S_{z_i} h_i^t, \qquad
        E = \sum_i E^0_{z_i} + s_{z_i} \sum_t \bigl(\epsilon_t(h_i^t) - \epsilon_t^{z_i}\bigr)

    with a product P and a nonlinearity Q chosen by name, linear layers L and S, and readouts
    :math:`\epsilon_t` minus their values for isolated atoms, whose energy is therefore :math:`E^0`.
    With ``config.zbl``, the repulsion of nuclei at short distances replaces those of the network.
    The energy has two continuous derivatives at the cutoff, and is float64 in any precision of the
    weights.

    Parameters
    ----------
    config : PotentialConfig

    Attributes
    ----------
    e0, scale : Tensor, (species,), float64
        Energy of an isolated atom of each species, in eV, and the unit of the network's energies,
        both set by :meth:`set_references`; initially zeros and ones.
    avg_neighbors : Tensor, (), float64
        Divisor of sums over neighbors.
    rep_in : Representation
        Of positions and of edge vectors.
    rep_out : (Representation, Representation)
        Of energies and of forces. Dipoles turn like forces, and polarizabilities like their
        products.

    Equivariance
    ------------
    Energies are invariant under O(3) (SO(3) for the product "matrix"), translations, permutations
    of equal atoms, and the choice of cell and images.

    References
    ----------
    Batatia, Kovács, Simm, Ortner, Csányi, "MACE", NeurIPS 2022; Batzner et al., "E(3)-equivariant
    graph neural networks for data-efficient and accurate interatomic potentials", 2022.

    Examples
    --------
    >>> config = PotentialConfig(species=(1, 8), cutoff=3.0, channels=4, lmax_edge=2)
    >>> potential = MessagePassingPotential(config).eval()
    >>> water = torch.tensor([[0.0, 0, 0], [0.8, 0.6, 0], [-0.8, 0.6, 0]])
    >>> batch = AtomicBatch.from_systems([(torch.tensor([8, 1, 1]), water, None, False)], 3.0)
    >>> potential(batch)
    PotentialOutput(energy=(1,) float64, energies=(3,) float64, forces=(3, 3) float32)
    """

    config_type = PotentialConfig
    e0: Tensor
    scale: Tensor
    avg_neighbors: Tensor
    states: Any  # by name, of what is an input

    def __init__(self, config: PotentialConfig) -> None:
        super().__init__()
        check_config(config, PotentialConfig)
        self.config = config
        species, channels = len(config.species), config.channels
        self.embedding = nn.Embedding(species, channels)
        self.harmonics = tp.SphericalHarmonics(
            list(range(config.lmax_edge + 1)), normalize=True, normalization="component"
        )
        self.basis = BesselBasis(config.cutoff, config.radial_basis)
        self.envelope = PolynomialCutoff(config.cutoff)
        irreps = Irreps([(channels, (0, 1))])
        self.layers = nn.ModuleList()
        for k in range(config.layers):
            layer = Interaction(config, irreps, last=k == config.layers - 1)
            self.layers.append(layer)
            irreps = layer.irreps_out
        with plain_tensors():
            index = torch.full((119,), -1)
            index[list(config.species)] = torch.arange(species)
        self.positions = IndexTables(of_number=index)
        self.register_buffer("e0", torch.zeros(species, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(species, dtype=torch.float64))
        average = torch.tensor(config.avg_neighbors, dtype=torch.float64)
        self.register_buffer("avg_neighbors", average)
        known = ((name, getattr(config, f"{name}s")) for name in USUAL_STATE)
        self.states = nn.ModuleDict(
            {name: StateEmbedding(name, values, channels) for name, values in known if values}
        )
        self.repulsion = Repulsion(config.species, config.cutoff) if config.zbl else None
        self.moments = Moments(irreps, config.outputs) if config.outputs else None
        self.is_frozen = False  # whether messages read distances: frozen.py

    @property
    def rep_in(self) -> Representation:
        """Representation of atomic positions and edge vectors."""
        return self._represent("1o")

    @property
    def rep_out(self) -> tuple[Representation, Representation]:
        """Representations of energies and of forces."""
        return self._represent("0e"), self._represent("1o")

    @property
    def num_features(self) -> int:
        """Number of features of an atom, the inputs of the last layers of the readouts."""
        layers: Any = self.layers
        return sum(layer.readout.sizes[-2] for layer in layers)

    def _saved_options(self) -> Mapping[str, Any]:
        options = super()._saved_options()
        # "full" is the same function, with all messages in memory.
        return {**options, "product": options["product"].replace("full", "channelwise")}

    def _represent(self, irreps: str) -> Representation:
        rep = Irreps(irreps)
        return rep.restrict(SO(3)) if self.config.product == "matrix" else rep

    def set_references(
        self,
        e0: Sequence[float] | Mapping[int, float] | Tensor,
        scale: float | Sequence[float] | Mapping[int, float] | Tensor | None = None,
        avg_neighbors: float | None = None,
    ) -> None:
        """Set reference energies and scales of the training set.

        Parameters
        ----------
        e0 : sequence of float or Tensor, (species,), or mapping of int to float
            Energy of an isolated atom of each species, in eV, such as those of
            :func:`equigeo.potentials.fit_references`; or by atomic number.
        scale : float, or as ``e0``, optional
            Unit of the network's energies, such as the root mean square of force components;
            unchanged by default.
        avg_neighbors : float, optional
            Mean number of neighbors; unchanged by default.
        """
        for name, value in zip(_REFERENCES, (e0, scale, avg_neighbors), strict=True):
            if value is None:
                continue
            if isinstance(value, Mapping):
                species = self.config.species
                if missing := [z for z in species if z not in value]:
                    raise ValueError(
                        f"{name} must have the atomic numbers {list(species)}, lacks {missing}"
                    )
                value = [value[z] for z in species]
            given = torch.as_tensor(value, dtype=torch.float64)
            buffer = getattr(self, name)
            if given.shape not in {buffer.shape, ()} or (name == "e0" and given.ndim == 0):
                raise ValueError(f"{name} must be {tuple(buffer.shape)}, got {tuple(given.shape)}")
            if not bool(given.isfinite().all()) or (name != "e0" and not bool((given > 0).all())):
                kind = "finite" if name == "e0" else "positive and finite"
                raise ValueError(f"{name} must be {kind}, got {given.tolist()}")
            buffer.copy_(given)

    def forward(
        self, batch: AtomicBatch, forces: bool = True, stress: bool = False, features: bool = False
    ) -> PotentialOutput:
        """Compute energies and their derivatives, also under ``no_grad``.

        ``stress`` includes the virial. Results have a graph in training mode, or if positions or
        cells require gradients.
        """
        kept: list[Tensor] = []
        hidden: list[Tensor] = []
        wanted: dict[str, Any] = {"features": kept if features else None, "hidden": hidden}
        if not (forces or stress):
            batch = batch.outside_inference_mode() if torch.is_grad_enabled() else batch
            energies = self.energies(batch, **wanted)
            more = {"features": kept[0] if features else None, **self._moments(hidden, batch)}
            return PotentialOutput(sum_by_system(energies, batch), energies, **more)
        given = batch.positions.requires_grad or (
            batch.cell is not None and batch.cell.requires_grad
        )
        record = torch.is_grad_enabled() and (self.training or given)
        with torch.inference_mode(False), torch.enable_grad():
            batch = batch.outside_inference_mode()
            # differentiated by positions of the caller, or by a copy
            positions = batch.positions
            if not (record and positions.requires_grad):
                positions = positions.detach().clone().requires_grad_(True)
            moved = batch.with_positions(positions)
            strain = moved.positions.new_zeros(batch.num_systems, 3, 3, dtype=torch.float64)
            strain.requires_grad_(stress)
            vectors = moved.vectors(strain if stress else None)
            energies = self.energies(moved, vectors, **wanted)
            more = {"features": kept[0] if features else None, **self._moments(hidden, moved)}
            by = [moved.positions, strain] if stress else [moved.positions]
            slopes = torch.autograd.grad(
                energies.sum(), by, create_graph=record, materialize_grads=True
            )
        energy = sum_by_system(energies, batch)
        if not record:
            energy, energies = energy.detach(), energies.detach()
            more = {name: None if x is None else x.detach() for name, x in more.items()}
        virial = -slopes[1] if stress else None
        return PotentialOutput(
            energy,
            energies,
            -slopes[0] if forces else None,
            None if virial is None else stress_of(virial, batch),
            virial,
            **more,
        )

    def _moments(self, hidden: list[Tensor], batch: AtomicBatch) -> dict[str, Tensor]:
        return {} if self.moments is None else self.moments(hidden[0], batch)

    def energies(
        self,
        batch: AtomicBatch,
        vectors: Tensor | None = None,
        *,
        features: list[Tensor] | None = None,
        hidden: list[Tensor] | None = None,
    ) -> Tensor:
        """Compute the energy of each atom, (atoms,), float64, in eV, as a differentiable function.

        ``vectors`` replaces the edge vectors of the batch. The features of :class:`PotentialOutput`
        are appended to ``features``, and those of the last layer to ``hidden``. Another cutoff, a
        dtype other than that of the weights,
        unknown elements and coincident atoms raise.
        """
        if batch.cutoff != self.config.cutoff:
            raise ValueError(
                f"the batch must have edges up to {self.config.cutoff} angstrom, the cutoff of the "
                f"potential, got {batch.cutoff}"
            )
        vectors = batch.vectors() if vectors is None else vectors
        given = {"charge": batch.charge, "spin": batch.spin}
        for name, values in given.items():
            if values is not None:
                check_shape(values, f"batch.{name}", (batch.num_systems,))
        states = {n: x[batch.batch] for n, x in self.embed_states(given, batch.ptr.diff()).items()}
        wanted: dict[str, Any] = {"features": features, "hidden": hidden}
        return self.energies_of_edges(batch.numbers, batch.edges, vectors, states=states, **wanted)

    def embed_states(self, given: Mapping[str, Tensor | None], counts: Tensor) -> dict[str, Tensor]:
        """Return the features of "charge" and "spin", (systems, channels), that are inputs.

        ``given`` are integers (systems,), by default 0 and 1, and ``counts`` the numbers of atoms.
        Unknown values raise, and other values than these warn if they are not inputs.
        """
        for name, values in given.items():
            if name in self.states or values is None or not values_readable(values):
                continue
            if bool((values != USUAL_STATE[name]).any()):
                warn(
                    f"energies do not depend on the {name} that systems have: the potential was "
                    f"trained without it (--inputs {name})",
                    stacklevel=2,
                )
        return {name: embed(given.get(name), counts) for name, embed in self.states.items()}

    def at_state(
        self, charge: int = 0, spin: int = 1, *, num_atoms: int
    ) -> MessagePassingPotential:
        """Return a copy for systems of one charge, spin and number of atoms, without these inputs.

        For engines that do not pass them. Energies and forces are equal, except where the
        repulsion of ``config.zbl`` replaces the network.

        Examples
        --------
        >>> config = PotentialConfig(species=(1, 8), channels=4, charges=(-1, 0))
        >>> anion = MessagePassingPotential(config).eval().at_state(charge=-1, num_atoms=2)
        >>> anion.config.charges
        ()
        """
        weight, species = self.embedding.weight, self.config.species
        numbers = torch.tensor(species, device=weight.device)
        one = {"charge": numbers.new_tensor([charge]), "spin": numbers.new_tensor([spin])}
        with torch.no_grad():
            found = self.embed_states(one, numbers.new_tensor([num_atoms]))
            states = {name: x.expand(len(species), -1) for name, x in found.items()}
            alone = EdgeIndex.from_valid_edges(numbers.new_zeros(2, 0), *[len(species)] * 2)
            fixed = deepcopy(self)
            fixed.e0 = self.energies_of_edges(numbers, alone, weight.new_zeros(0, 3), states=states)
            for x in found.values():
                fixed.embedding.weight += x
        if fixed.moments is not None:
            fixed.moments.fixed.copy_(torch.tensor([1, charge]))
        fixed.states, fixed.config = nn.ModuleDict(), replace(self.config, charges=(), spins=())
        return fixed

    def energies_of_edges(
        self,
        numbers: Tensor,
        edges: EdgeIndex,
        vectors: Tensor,
        *,
        exchange: Callable[[Tensor], Tensor] | None = None,
        features: list[Tensor] | None = None,
        states: Mapping[str, Tensor] | None = None,
        hidden: list[Tensor] | None = None,
    ) -> Tensor:
        """Compute the energy of each atom from edges that are known, such as those of an engine.

        Parameters
        ----------
        numbers : Tensor, (sources,), int64
            Atomic numbers.
        edges : EdgeIndex
            All pairs within the cutoff that end at the targets. There may be more sources than
            targets: atoms of other processes and periodic images, behind the targets.
        vectors : Tensor, (edges, 3), dtype of the weights
            From sources to targets, in angstrom; edges beyond the cutoff have no effect.
        exchange : callable, optional
            From rows of targets, (targets, dim), to rows of sources, (sources, dim);
            differentiable, and called before each layer but the first. Needed if there are more
            sources than targets.
        features : list of Tensor, optional
            The features of :class:`PotentialOutput`, (targets, n), are appended to it.
        states : mapping of str to Tensor, (sources, channels), optional
            Those of :meth:`embed_states` for each atom, without ``exchange``; by default of the
            charge 0 and the spin 1. See :meth:`at_state` for others.
        hidden : list of Tensor, optional
            The features of the last layer, (targets, dim), are appended to it.

        Returns
        -------
        Tensor, (targets,), float64
            In eV.
        """
        dtype = self.embedding.weight.dtype
        if {vectors.dtype, dtype} == {torch.float32, torch.float64}:  # autocast takes halves
            raise TypeError(
                f"positions must have the dtype of the weights, {dtype}, got {vectors.dtype}: use "
                f"AtomicBatch.from_systems(..., dtype={dtype}) or batch.to(dtype={dtype})"
            )
        species = self.species_of(numbers)
        if exchange is None and edges.num_sources != edges.num_targets:
            raise ValueError(
                f"more sources than targets need an exchange, got {edges.num_sources} and "
                f"{edges.num_targets}"
            )
        lengths = torch.linalg.vector_norm(vectors, dim=1)
        _check_apart(edges, lengths)
        radial = lengths if self.is_frozen else radial_features(self, lengths)
        edge = EdgeFeatures(edges, vectors, self.harmonics(vectors), radial)
        inputs: list[Tensor] | None = None if features is None else []
        repelled = share = None
        if self.repulsion is not None:
            repelled, share = self.repulsion(species, edges, lengths)
        if states is None:  # raises unless the usual one is known
            states = {}
            self.embed_states(states, numbers.new_ones(1))
        values, h = self._values(species, edge, exchange, inputs, share, states)
        if hidden is not None:
            hidden.append(h)
        own = species if exchange is None else species[: edges.num_targets]
        scale = self.scale[own] if share is None else share * self.scale[own]
        # Without neighbors and a charge, the difference to an isolated atom is zero but for the
        # rounding of matrix products.
        known = edges.ptr.diff() > 0
        if "charge" in states:
            known = known | (states["charge"] != 0).any(dim=1)
        if features is not None and inputs:
            rows = torch.cat(inputs, dim=1).double() * scale[:, None]
            features.append(torch.where(known[:, None], rows, 0.0))
        energies = self.e0[own] + scale * torch.where(known, values, 0.0).double()
        return energies if repelled is None else energies + repelled

    def _values(
        self,
        species: Tensor,  # (sources,)
        edge: EdgeFeatures,
        exchange: Callable[[Tensor], Tensor] | None,
        inputs: list[Tensor] | None,  # of the last layers, minus those of isolated atoms; appended
        share: Tensor | None,  # (targets,) of the features that an atom has beside a repulsion
        states: Mapping[str, Tensor],  # (sources, channels)
    ) -> tuple[Tensor, Tensor]:
        """Return the output minus that for isolated neutral atoms, and the last features."""
        h, alone = self.embedding(species), self.embedding.weight
        every = torch.arange(len(alone), device=species.device)
        if "spin" in states:  # that an isolated atom has, too
            h = h + states["spin"]
            alone, every = h, species
        if "charge" in states:
            h = h + states["charge"]
        layers: Any = self.layers
        sent = None
        if exchange is not None:
            sent, targets = layers[0].mix_in(h), edge.edges.num_targets
            h, species = h[:targets], species[:targets]
        place = species if "spin" not in states else torch.arange(h.shape[0], device=h.device)
        values = h.new_zeros(h.shape[0])
        for k, layer in enumerate(layers):
            if exchange is not None and k > 0:
                sent = exchange(layer.mix_in(h))
            h = layer(h, species, edge, self.avg_neighbors, sent)
            if share is not None:  # what was not trained is not sent on
                h = h * share.to(h.dtype)[:, None]
            alone = layer.skip(alone, every)  # no messages: the nonlinearity is zero at zero
            values = values + layer.read(h) - layer.read(alone)[place]
            if inputs is not None:
                inputs.append(layer.last_inputs(h) - layer.last_inputs(alone)[place])
        return values, h

    def species_of(self, numbers: Tensor) -> Tensor:
        """Convert atomic numbers (atoms,) to positions in ``config.species``."""
        elements = (numbers >= 0) & (numbers <= 118)
        known = self.positions["of_number"][numbers.clamp(0, 118)]
        species = known.masked_fill(~elements, -1)
        if values_readable(species) and bool((species < 0).any()):
            unknown = sorted(set(numbers[species < 0].tolist()))
            raise ValueError(
                f"atomic numbers must be among {list(self.config.species)}, which the potential "
                f"knows, got {unknown}"
            )
        return species

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Move to devices and dtypes, but keep references in float64."""
        with kept_in_float64(self, *_REFERENCES):
            return super()._apply(fn, recurse)


def _check_apart(edges: EdgeIndex, lengths: Tensor) -> None:
    """Raise if an edge has no length."""
    if not values_readable(lengths):
        return
    short = (lengths.detach() < SHORTEST_EDGE).nonzero()
    if len(short):
        source, target = edges.edge_index[:, int(short[0])].tolist()
        raise ValueError(f"atoms must not coincide, but {source} and {target} do")


def radial_features(potential: MessagePassingPotential, lengths: Tensor) -> Tensor:
    """Return the input of radial networks, (edges, radial_basis)."""
    return potential.basis(lengths) * potential.envelope(lengths)[:, None]


@dataclass(frozen=True)
class FittedReferences:
    """Energy of each element, with the quality of the fit."""

    species: tuple[int, ...]  # atomic numbers that occur, ascending
    energies: tuple[float, ...]  # of one atom of each, in eV
    rank: int  # of the compositions; if below the number of species, only sums are determined
    residual: float  # root mean square, in eV per frame

    @property
    def is_unique(self) -> bool:
        """Return whether the frames determine the energy of each element."""
        return self.rank == len(self.species)


def fit_references(numbers_per_frame: Sequence[Any], energies: ArrayLike) -> FittedReferences:
    r"""Fit a sum of energies of elements to total energies, by least squares.

    .. math:: \min_{E} \sum_f \Bigl(E_f - \sum_z n_{fz} E_z\Bigr)^2

    Parameters
    ----------
    numbers_per_frame : sequence of (atoms,) arrays or tensors, integer
        Atomic numbers of each frame.
    energies : array, (frames,)
        Total energies, in eV.

    Returns
    -------
    FittedReferences
        With the ``energies`` of an atom of each of the ``species``, in eV; the ``rank`` of the
        compositions; whether the energies are unique, ``is_unique``, otherwise those of least norm;
        and the ``residual``, root mean square in eV per frame.

    Examples
    --------
    >>> fitted = fit_references([[1, 1], [1, 1, 8], [8, 8]], [-2.0, -8.0, -12.0])
    >>> fitted.species, [round(energy, 6) for energy in fitted.energies], fitted.is_unique
    ((1, 8), [-1.0, -6.0], True)
    """
    frames = [np.asarray(numbers).reshape(-1) for numbers in numbers_per_frame]
    for k, numbers in enumerate(frames):
        if len(numbers) and numbers.dtype.kind not in "iu":
            raise TypeError(f"atomic numbers of frame {k} must be integers, got {numbers.dtype}")
        if len(numbers) and not 1 <= numbers.min() <= numbers.max() <= 118:
            raise ValueError(
                f"atomic numbers of frame {k} must be 1 to 118, got {numbers.min()} to "
                f"{numbers.max()}"
            )
    totals = np.asarray(energies, np.float64).reshape(-1)
    if not frames or len(frames) != len(totals):
        raise ValueError(
            f"there must be one energy for each of at least one frame, got {len(totals)} "
            f"for {len(frames)} frames"
        )
    for k, (numbers, energy) in enumerate(zip(frames, totals, strict=True)):
        if not len(numbers) or not np.isfinite(energy):
            raise ValueError(
                f"frame {k} must have atoms and a finite energy, got {len(numbers)} atoms and "
                f"{energy}"
            )
    species = np.unique(np.concatenate(frames))
    counts: NDArray[np.float64] = np.stack(
        [np.bincount(np.searchsorted(species, n), minlength=len(species)) for n in frames]
    ).astype(np.float64)
    found, _, rank, _ = np.linalg.lstsq(counts, totals, rcond=None)
    left = totals - counts @ found
    return FittedReferences(
        tuple(int(z) for z in species),
        tuple(float(energy) for energy in found),
        int(rank),
        float(np.sqrt(np.mean(left**2))),
    )
