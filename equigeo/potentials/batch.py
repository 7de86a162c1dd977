"""Atoms of several systems with their edges, and the output of a potential."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from equigeo._core.brief import brief_repr, shown
from equigeo._core.checks import (
    STATE_RANGE,
    USUAL_STATE,
    as_tensor,
    check_shape,
    is_integer,
    state_of,
)
from equigeo._core.tensors import lasting, register_structure
from equigeo.graphs import EdgeIndex, VerletList, neighbor_list

System: TypeAlias = tuple[Any, Any, Any, Any]
"""Atomic numbers (atoms,), positions (atoms, 3), cell (3, 3) or None, and pbc: a bool or three."""


@dataclass(frozen=True, eq=False, repr=False)
class AtomicBatch:
    """Atoms of several systems, and all pairs within a cutoff; lengths are in angstrom.

    Build it with :meth:`from_systems`; the constructor does not validate.

    Parameters
    ----------
    numbers : Tensor, (atoms,), int64
        Atomic numbers.
    positions : Tensor, (atoms, 3), floating
        Of all systems, one after another.
    cell : Tensor, (systems, 3, 3), dtype of positions, or None
        Rows are lattice vectors; zeros for a system without a cell, None if no system has one.
    pbc : Tensor, (systems, 3), bool
        Periodic axes.
    edge_index : Tensor, (2, edges), int64
        Row 0 sources, row 1 targets, sorted by target.
    shifts : Tensor, (edges, 3), int32
        Multiples of lattice vectors that are added to the target.
    batch : Tensor, (atoms,), int64
        System of each atom.
    ptr : Tensor, (systems + 1,), int64
        Offsets of the systems.
    cutoff : float
        Upper bound of the lengths of edges.
    vector_dtype : torch.dtype, optional
        Dtype of edge vectors, by default that of the positions.
    charge, spin : Tensor, (systems,), int64, optional
        Total charge in units of e, and spin multiplicity, the number of unpaired electrons plus
        one. Read by potentials with ``config.charges`` and ``config.spins``; default: 0 and 1.

    Examples
    --------
    >>> water = (np.array([8, 1, 1]), np.array([[0, 0, 0], [0.8, 0.6, 0], [-0.8, 0.6, 0]]))
    >>> batch = AtomicBatch.from_systems([(*water, None, False)] * 2, cutoff=1.5)
    >>> batch.num_systems, batch.edge_index.tolist()
    (2, [[1, 2, 0, 0, 4, 5, 3, 3], [0, 0, 1, 2, 3, 3, 4, 5]])
    """

    numbers: Tensor
    positions: Tensor
    cell: Tensor | None
    pbc: Tensor
    edge_index: Tensor
    shifts: Tensor
    batch: Tensor
    ptr: Tensor
    cutoff: float
    vector_dtype: torch.dtype | None = None
    charge: Tensor | None = None
    spin: Tensor | None = None

    __repr__ = brief_repr

    @classmethod
    def from_systems(
        cls,
        systems: Sequence[System],
        cutoff: float,
        *,
        dtype: torch.dtype | None = None,
        vector_dtype: torch.dtype | None = None,
        backend: str = "auto",
        verlet: VerletList | None = None,
        charge: Sequence[int] | Tensor | None = None,
        spin: Sequence[int] | Tensor | None = None,
    ) -> AtomicBatch:
        """Build the edges of systems and concatenate them, on the CPU.

        Errors name the system.

        Parameters
        ----------
        systems : sequence of tuples
            Each ``(numbers, positions, cell, pbc)`` of arrays or tensors: (atoms,), integer;
            (atoms, 3) in angstrom, never wrapped; (3, 3) with lattice vectors as rows, or None; a
            bool or three.
        cutoff : float
            In angstrom.
        dtype : torch.dtype, optional
            Of positions and cell, by default PyTorch's. Edges are those of the rounded positions.
        vector_dtype : torch.dtype, optional
            Of edge vectors, by default ``dtype``. Use that of the weights with positions in
            float64, which are precise far from the origin.
        backend : str
            As for :func:`equigeo.graphs.neighbor_list`.
        verlet : VerletList, optional
            Of the same cutoff: reuses edges until atoms have moved too far, with its own backend.
        charge, spin : sequence of int or Tensor, (systems,), optional
            Total charges and spin multiplicities; the unknown spin 0 becomes 1.

        Examples
        --------
        >>> carbon = (torch.tensor([6]), torch.zeros(1, 3), 2.0 * torch.eye(3), True)
        >>> AtomicBatch.from_systems([carbon], cutoff=2.5).edge_index.shape
        torch.Size([2, 6])
        """
        with torch.device("cpu"):  # the default device may be another one
            dtype = torch.get_default_dtype() if dtype is None else dtype
            parts = [_read(system, f"system {k}", dtype) for k, system in enumerate(systems)]
            counts = torch.tensor([0, *(len(part[0]) for part in parts)])
            ptr = counts.cumsum(0)
            empty = torch.zeros(0, dtype=torch.int64), torch.zeros(0, 3, dtype=dtype)
            numbers = torch.cat([empty[0], *(part[0] for part in parts)])
            positions = torch.cat([empty[1], *(part[1] for part in parts)])
            pbc = torch.stack([part[3] for part in parts]) if parts else torch.zeros(0, 3).bool()
            cell = None
            if any(part[2] is not None for part in parts):
                none = torch.zeros(3, 3, dtype=dtype)
                cell = torch.stack([none if part[2] is None else part[2] for part in parts])
            if verlet is None:
                listed = neighbor_list(positions, cutoff, cell, pbc, ptr=ptr, backend=backend)
            elif verlet.cutoff != cutoff:
                raise ValueError(f"verlet must have the cutoff {cutoff}, got {verlet.cutoff}")
            else:
                listed = verlet.update(positions, cell, pbc, ptr=ptr)
            batch = torch.arange(len(parts)).repeat_interleave(counts[1:])
            edges = listed.edge_index, listed.shifts
            kinds = listed.cutoff, vector_dtype
            states = (_states(x, n, len(parts)) for x, n in ((charge, "charge"), (spin, "spin")))
            return cls(numbers, positions, cell, pbc, *edges, batch, ptr, *kinds, *states)

    @classmethod
    def from_ase(cls, structures: Any, cutoff: float, **options: Any) -> AtomicBatch:
        """Build the edges of one ``ase.Atoms`` or of a sequence of them.

        Other arguments are those of :meth:`from_systems`. By default, ``charge`` and ``spin`` are
        these entries of ``atoms.info``; labels and constraints are not read.

        Examples
        --------
        >>> from ase.build import bulk  # doctest: +SKIP
        >>> AtomicBatch.from_ase(bulk("Cu"), cutoff=3.0).edge_index.shape  # doctest: +SKIP
        torch.Size([2, 12])
        """
        systems, info = [], []
        for k, atoms in enumerate([structures] if _is_ase(structures) else structures):
            if not _is_ase(atoms):
                raise TypeError(f"structure {k} must be ase.Atoms, got {type(atoms).__name__}")
            cell = np.array(atoms.cell) if atoms.cell.any() else None
            numbers = np.array(atoms.numbers, np.int64)
            systems.append((numbers, np.array(atoms.positions), cell, np.array(atoms.pbc)))
            info.append(atoms.info)
        return cls.from_systems(systems, cutoff, **(states_of(info) | options))

    @property
    def num_systems(self) -> int:
        """Number of systems."""
        return self.ptr.shape[0] - 1

    @cached_property
    def edges(self) -> EdgeIndex:
        """Edges with the orders that layers need, computed on first use."""
        atoms = self.numbers.shape[0]
        with lasting(self.edge_index):
            return EdgeIndex.from_valid_edges(self.edge_index.clone(), atoms, atoms)

    def vectors(self, strain: Tensor | None = None) -> Tensor:
        """Compute edge vectors (edges, 3) from sources to targets in ``vector_dtype``.

        Differentiable by positions, cell and strain (systems, 3, 3), float64: the symmetric part e
        of the strain deforms space by ``v (1 + e)``. Differences are computed in float64.
        """
        source, target = self.edge_index
        x = self.positions.double()
        vectors = x.index_select(0, target) - x.index_select(0, source)
        system = self.batch.index_select(0, source)
        if self.cell is not None:
            cells = self.cell.double().index_select(0, system)
            vectors = vectors + torch.einsum("ea,eab->eb", self.shifts.double(), cells)
        if strain is not None:
            symmetric = ((strain + strain.mT) / 2).index_select(0, system)
            vectors = vectors + torch.einsum("ea,eab->eb", vectors, symmetric)
        return vectors.to(self.vector_dtype or self.positions.dtype)

    def with_positions(self, positions: Tensor) -> AtomicBatch:
        """Replace the positions (atoms, 3) and keep the edges, which must still be complete."""
        check_shape(positions, "positions", (self.numbers.shape[0], 3))
        moved = replace(self, positions=positions)
        moved.__dict__["edges"] = self.edges
        return moved

    def outside_inference_mode(self) -> AtomicBatch:
        """Copy inference tensors, which do not support gradients."""
        if not (self.positions.is_inference() or self.edge_index.is_inference()):
            return self
        return self._map(Tensor.clone)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> AtomicBatch:
        """Move every tensor to a device, and cast positions, cell and vectors."""
        moved = self._map(lambda x: x.to(device, dtype if x.is_floating_point() else None))
        return moved if dtype is None else replace(moved, vector_dtype=None)

    def _map(self, change: Callable[[Tensor], Tensor]) -> AtomicBatch:
        changed: dict[str, Any] = {
            name: change(x) for name, x in vars(self).items() if isinstance(x, Tensor)
        }
        return replace(self, **changed)


def states_of(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return total charges and spins of structures by their entries."""
    return {name: [state_of(info, name) for info in infos] for name in USUAL_STATE}


def _states(values: Sequence[int] | Tensor | None, name: str, systems: int) -> Tensor | None:
    """Validate charges or spins, (systems,)."""
    if values is None:
        return None
    try:
        found = torch.as_tensor(np.zeros(0, np.int64) if systems == 0 else values).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be integers, got {shown(values)}") from None
    check_shape(found, name, (systems,))
    if not is_integer(found):
        raise TypeError(f"{name} must be integers, got {found.dtype}")
    least, most = STATE_RANGE[name]
    if bool(((found < least) | (found > most)).any()):
        raise ValueError(f"{name} must be from {least} to {most}, got {shown(found.tolist())}")
    return found.long().clamp(min=1) if name == "spin" else found.long()


def _is_ase(value: Any) -> bool:
    return hasattr(value, "get_atomic_numbers")


def _read(
    system: System, name: str, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Validate one system and return tensors."""
    if not isinstance(system, (tuple, list)) or len(system) != 4:
        raise TypeError(f"{name} must be a tuple (numbers, positions, cell, pbc)")
    numbers = as_tensor(system[0], f"numbers of {name}").detach().cpu()
    positions = _lengths(system[1], f"positions of {name}", dtype)
    check_shape(numbers, f"numbers of {name}", ("atoms",))
    if not is_integer(numbers):
        raise TypeError(f"numbers of {name} must be integers, got {numbers.dtype}")
    check_shape(positions, f"positions of {name}", (len(numbers), 3))
    cell = None if system[2] is None else _lengths(system[2], f"cell of {name}", dtype)
    pbc = torch.as_tensor(np.asarray(system[3]))
    if pbc.dtype != torch.bool or pbc.shape not in {(), (3,)}:
        raise ValueError(f"pbc of {name} must be a bool or three, got {system[3]!r}")
    if cell is None and bool(pbc.any()):
        raise ValueError(f"{name} must have a cell where it is periodic, got None")
    if cell is not None:
        check_shape(cell, f"cell of {name}", (3, 3))
    for what, value in (("positions", positions), ("cell", cell)):
        if value is not None and not bool(value.isfinite().all()):
            raise ValueError(f"{what} of {name} must be finite numbers, got NaN or infinity")
    return numbers.long(), positions, cell, pbc.expand(3)


def _lengths(value: Any, name: str, dtype: torch.dtype) -> Tensor:
    found = as_tensor(value, name).detach().cpu()
    if found.dtype == torch.bool or found.is_complex():
        raise TypeError(f"{name} must be real numbers, got {found.dtype}")
    return found.to(dtype)


@dataclass(frozen=True, eq=False, repr=False)
class PotentialOutput:
    """Energies and derivatives of a batch.

    Parameters
    ----------
    energy : Tensor, (systems,), float64
        In eV.
    energies : Tensor, (atoms,), float64
        Share of each atom, in eV.
    forces : Tensor, (atoms, 3), dtype of positions, or None
        Minus the gradient of the energy, in eV/angstrom.
    stress : Tensor, (systems, 3, 3), float64, or None
        Derivative of the energy to strain over the volume, in eV/angstrom^3, with the sign of ASE:
        positive if a crystal would shrink. NaN for a system without three periodic axes.
    virial : Tensor, (systems, 3, 3), float64, or None
        Minus the derivative of the energy to strain, in eV, of any system.
    features : Tensor, (atoms, n), float64, or None
        Inputs of the last layers minus those of isolated atoms, times the scale of the element:
        ``energies`` are a linear function of them, plus those of isolated atoms.
    dipole : Tensor, (systems, 3), float64, or None
        In e angstrom, of a potential with this output: of charges, by whose sum it depends on the
        origin, and of atoms. NaN for a system with a periodic axis, where it is not defined.
    polarizability : Tensor, (systems, 3, 3), float64, or None
        Symmetric, in angstrom^3, of a potential with this output.

    Examples
    --------
    >>> output = PotentialOutput(torch.tensor([-1.5]), torch.tensor([-1.0, -0.5]))
    >>> output.energies.sum() == output.energy[0]
    tensor(True)
    """

    energy: Tensor
    energies: Tensor
    forces: Tensor | None = None
    stress: Tensor | None = None
    virial: Tensor | None = None
    features: Tensor | None = None
    dipole: Tensor | None = None
    polarizability: Tensor | None = None

    __repr__ = brief_repr


register_structure(PotentialOutput, "equigeo.potentials.PotentialOutput", {})


def sum_by_system(
    rows: Tensor,  # (atoms, ...)
    batch: AtomicBatch,
) -> Tensor:
    """Sum rows of atoms per system, (systems, ...)."""
    return rows.new_zeros(batch.num_systems, *rows.shape[1:]).index_add(0, batch.batch, rows)


def has_stress(batch: AtomicBatch) -> Tensor:
    """Return which systems have a periodic axis and a cell with a volume, (systems,), bool."""
    periodic = batch.pbc.any(dim=1)
    if batch.cell is None:
        return torch.zeros_like(periodic)
    return periodic & (torch.linalg.det(batch.cell.double()) != 0)


def stress_over_cell(out: PotentialOutput, batch: AtomicBatch) -> Tensor:
    """Return stresses, (systems, 3, 3); of slabs and wires, over the volume of the given cell."""
    stress: Any = out.stress
    if out.virial is None:
        return torch.as_tensor(stress)
    given = (has_stress(batch) & ~batch.pbc.all(dim=1))[:, None, None]
    return _over_volume(out.virial, batch, given, stress)


def stress_of(
    virial: Tensor,  # (systems, 3, 3): minus the strain derivative in eV
    batch: AtomicBatch,
) -> Tensor:
    """Return stress in eV/angstrom^3, (systems, 3, 3); NaN if an axis is not periodic."""
    periodic = batch.pbc.all(dim=1)[:, None, None]
    return _over_volume(virial, batch, periodic, torch.full_like(virial, torch.nan))


def _over_volume(virial: Tensor, batch: AtomicBatch, where: Tensor, other: Tensor) -> Tensor:
    """Return minus the virial over the volume of cells, and other values elsewhere."""
    if batch.cell is None:
        return other
    volume = torch.linalg.det(batch.cell.double()).abs()[:, None, None]
    return torch.where(where, -virial / torch.where(where, volume, 1.0), other)
