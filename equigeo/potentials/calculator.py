"""ASE calculator for potentials."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module
from types import NoneType
from typing import Any, ClassVar, Final, TypeAlias
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equigeo._core.brief import shown
from equigeo._core.checks import USUAL_STATE, check_shape, kind_of, state_of
from equigeo.graphs import VerletList
from equigeo.graphs.verlet_list import DEFAULT_SKIN
from equigeo.potentials.batch import AtomicBatch
from equigeo.potentials.frozen import frozen
from equigeo.potentials.potential import MessagePassingPotential
from equigeo.potentials.uncertainty import LastLayerUncertainty, committee_output

_EDGES_AT_ONCE = 4096  # all rows counted: for 544 edges 8 rows were the fastest, 72 a fifth slower


def hessian(
    model: MessagePassingPotential, batch: AtomicBatch, *, chunk_size: int | None = None
) -> Tensor:
    """Compute the second derivatives of the energy of one system by positions.

    Of shape (3 atoms, 3 atoms), in eV/angstrom^2 and the dtype of the positions, symmetric up to
    rounding. Rows are batched backward passes: ``chunk_size`` at a time, by default as many as work
    on data that fits into caches.

    Examples
    --------
    >>> from equigeo.potentials import PotentialConfig
    >>> model = MessagePassingPotential(PotentialConfig((6,), channels=2, lmax_edge=1))
    >>> carbon = torch.tensor([6, 6]), torch.tensor([[0.0, 0, 0], [1.2, 0, 0]]), None, False
    >>> hessian(model, AtomicBatch.from_systems([carbon], 5.0)).shape
    torch.Size([6, 6])
    """
    if batch.num_systems != 1:
        raise ValueError(f"batch must be one system, got {batch.num_systems}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size must be positive, got {chunk_size}")
    size = batch.positions.numel()
    rows_at_once = max(1, _EDGES_AT_ONCE // max(1, batch.edge_index.shape[1]))
    with torch.inference_mode(False), torch.enable_grad():
        positions, slope = _slope(model, batch)
        directions = torch.eye(size, dtype=slope.dtype, device=slope.device)
        rows = [
            _derivative(slope, positions, part.unflatten(1, (-1, 3)))
            for part in directions.split(chunk_size or rows_at_once)
        ]
    return torch.cat(rows).flatten(1) if size else directions


def hessian_vector_product(
    model: MessagePassingPotential, batch: AtomicBatch, vectors: Tensor
) -> Tensor:
    """Multiply second derivatives by displacements, without the matrix.

    ``vectors`` are (atoms, 3) or (displacements, atoms, 3), of all systems; so is the result.

    Examples
    --------
    >>> from equigeo.potentials import PotentialConfig
    >>> model = MessagePassingPotential(PotentialConfig((6,), channels=2, lmax_edge=1))
    >>> carbon = torch.tensor([6, 6]), torch.tensor([[0.0, 0, 0], [1.2, 0, 0]]), None, False
    >>> batch = AtomicBatch.from_systems([carbon], 5.0)
    >>> hessian_vector_product(model, batch, torch.ones(2, 3)).abs().max() < 1e-4  # a translation
    tensor(True)
    """
    atoms = len(batch.numbers)
    check_shape(vectors, "vectors", ("displacements", atoms, 3)[3 - vectors.ndim :])
    with torch.inference_mode(False), torch.enable_grad():
        positions, slope = _slope(model, batch)
        every = vectors.detach().reshape(-1, atoms, 3)
        return _derivative(slope, positions, every).reshape(vectors.shape)


def _slope(model: MessagePassingPotential, batch: AtomicBatch) -> tuple[Tensor, Tensor]:
    """Return positions and the energy gradient as a function of them."""
    batch = batch.outside_inference_mode()
    positions = batch.positions.detach().clone().requires_grad_(True)
    energy = model.energies(batch.with_positions(positions)).sum()
    (slope,) = torch.autograd.grad(energy, positions, create_graph=True, materialize_grads=True)
    return positions, slope


def _derivative(slope: Tensor, positions: Tensor, directions: Tensor) -> Tensor:
    """Return the derivative of the gradient along directions (rows, atoms, 3), in one pass."""
    if not (slope.requires_grad and slope.numel()):  # no edges, or no atoms
        return torch.zeros_like(directions)
    (rows,) = torch.autograd.grad(
        slope,
        positions,
        directions,
        retain_graph=True,  # for the next chunk
        is_grads_batched=True,
        materialize_grads=True,
    )
    return rows


_ase: Any
try:
    _ase = import_module("ase.calculators.calculator")
except ImportError:  # the constructor raises
    _ase = None
_Base: Any = object if _ase is None else _ase.Calculator

_VOIGT = (0, 1, 2, 1, 0, 0), (0, 1, 2, 2, 2, 1)  # xx yy zz yz xz xy
_MOST_LISTS: Final = 64  # of atoms: more than the images of an elastic band
_Lists: TypeAlias = OrderedDict[int, tuple[Any, VerletList]]
_NOT_READ = ("initial_charges", "initial_magmoms")


class Calculator(_Base):
    """ASE calculator for a potential, for optimizers, dynamics and equations of state.

    All properties are computed at once and cached until positions, elements or the cell change. On
    the CPU, radial networks are evaluated as splines, exact to rounding, which are made in the
    first calculation and when their weights have changed. Atoms and potential are not modified. The
    total charge and the spin multiplicity are ``atoms.info["charge"]`` and ``atoms.info["spin"]``,
    by default 0 and 1, if the potential has these inputs; otherwise other values warn. Not
    thread-safe: give each thread its own calculator.

    Parameters
    ----------
    model : MessagePassingPotential, or sequence of MessagePassingPotential
        In float32 or float64; results are float64. Elements that it does not know raise
        ``ValueError``. Several, of equal species, cutoff, outputs, dtype and device, are a
        committee: results are means, and uncertainties sample standard deviations.
    skin : float
        In angstrom: edges are listed up to cutoff and skin, and updated when atoms or the cell have
        moved too far (:class:`equigeo.graphs.VerletList`). Results do not depend on it.
    backend : str
        As for :func:`equigeo.graphs.neighbor_list`.
    cell_stress : bool
        Return a stress for systems without three periodic axes, too: over the volume of the given
        cell. ASE's filters multiply by it, so that a mask relaxes slabs.
    uncertainty : LastLayerUncertainty, optional
        Of the one potential: adds uncertainties to the results.

    Attributes
    ----------
    implemented_properties : list of str
        energy and free_energy (equal), energies of atoms, which include those of elements, in eV;
        forces in eV/angstrom; stress in eV/angstrom^3 as xx, yy, zz, yz, xz, xy. With a committee
        or ``uncertainty``: energy_uncertainty in eV and, of force components of each atom,
        forces_uncertainty (atoms,) in eV/angstrom. With these outputs of the potential: dipole (3,)
        in e angstrom, of atoms without periodic axes, and polarizability (3, 3) in angstrom^3.
    calls : int
        Number of evaluations of the potential.
    rebuilds : int
        Number of neighbor searches. Each atoms object has its own list; the last 64 are kept.

    Examples
    --------
    >>> from equigeo.potentials import PotentialConfig
    >>> from ase import Atoms  # doctest: +SKIP
    >>> model = MessagePassingPotential(PotentialConfig((1, 8), channels=4)).eval()
    >>> atoms = Atoms("OH", [(0, 0, 0), (0, 0, 1)], calculator=Calculator(model))  # doctest: +SKIP
    >>> atoms.get_forces().shape  # doctest: +SKIP
    (2, 3)
    """

    implemented_properties: ClassVar[list[str]] = [
        "energy",
        "free_energy",
        "energies",
        "forces",
        "stress",
    ]
    ignored_changes: ClassVar[set[str]] = set(_NOT_READ)

    def __init__(
        self,
        model: MessagePassingPotential | Sequence[MessagePassingPotential],
        *,
        skin: float = DEFAULT_SKIN,
        backend: str = "auto",
        cell_stress: bool = False,
        uncertainty: LastLayerUncertainty | None = None,
    ) -> None:
        if _ase is None:
            raise ImportError("a Calculator needs ASE: pip install 'ase>=3.23'")
        super().__init__()
        self.model = model
        self.cell_stress = cell_stress
        self.uncertainty = uncertainty
        check_members(self._members, uncertainty)
        names = [*self._members[0].config.outputs]
        if uncertainty is not None or len(self._members) > 1:
            names += ["energy_uncertainty", "forces_uncertainty"]
        # ASE reads them from the object
        self.implemented_properties = [  # type: ignore[misc]
            *type(self).implemented_properties,
            *names,
        ]
        self.calls = 0
        self._new_list = partial(VerletList, self._members[0].config.cutoff, skin, backend=backend)
        self._lists: _Lists = OrderedDict({0: (None, self._new_list())})  # checks the options
        self._forgotten = 0

    @property
    def _members(self) -> tuple[MessagePassingPotential, ...]:
        return members_of(self.model)

    @property
    def rebuilds(self) -> int:
        """Number of neighbor searches."""
        return self._forgotten + sum(verlet.rebuilds for _, verlet in self._lists.values())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lists": OrderedDict(), "_forgotten": self.rebuilds}

    def _list_of(self, atoms: Any) -> VerletList:
        """Return the list of an object, that of a deleted one, or a new one."""
        key, lists = id(atoms), self._lists
        if key not in lists:
            gone = [other for other, (owner, _) in lists.items() if not (owner and owner())]
            if gone or len(lists) >= _MOST_LISTS:
                _, verlet = lists.pop(gone[-1] if gone else next(iter(lists)))
            else:
                verlet = self._new_list()
            lists[key] = None, verlet
        lists.move_to_end(key)
        lists[key] = ref(atoms), lists[key][1]  # the number may be that of an object that is gone
        return lists[key][1]

    def calculate(
        self,
        atoms: Any = None,
        properties: list[str] | None = None,
        system_changes: list[str] | None = None,
    ) -> None:
        """Compute all properties; called by ASE.

        A stress for fewer than three periodic axes raises ``PropertyNotImplementedError`` unless
        ``cell_stress`` is set.
        """
        changes = _ase.all_changes if system_changes is None else system_changes
        super().calculate(atoms, properties, changes)
        periodic = bool(self.atoms.pbc.all())
        has_stress = periodic or bool(self.cell_stress and self.atoms.cell.rank == 3)
        if "stress" in (properties or ()) and not has_stress:
            raise _ase.PropertyNotImplementedError(
                f"stress needs three periodic axes, got pbc={self.atoms.pbc.tolist()}; "
                "Calculator(..., cell_stress=True) uses the volume of the cell, which must have "
                "three vectors"
            )
        if "dipole" in (properties or ()) and bool(self.atoms.pbc.any()):
            raise _ase.PropertyNotImplementedError(
                f"a dipole needs pbc=False: it depends on the choice of the cell, got "
                f"pbc={self.atoms.pbc.tolist()}"
            )
        with torch.no_grad():  # no graph; the potential enables gradients for its derivatives
            batch = self.batch(self.atoms if atoms is None else atoms)
            out, *uncertainties = self._evaluate(batch, has_stress)
        self.calls += 1
        self.results = {
            "energy": float(out.energy[0]),
            "free_energy": float(out.energy[0]),
            "energies": _array(out.energies),
            "forces": _array(out.forces),
        }
        if uncertainties:
            self.results["energy_uncertainty"] = float(uncertainties[0])
            self.results["forces_uncertainty"] = _array(uncertainties[1])
        for name in self._members[0].config.outputs:
            if name != "dipole" or not bool(self.atoms.pbc.any()):
                self.results[name] = _array(getattr(out, name)[0])
        if out.stress is not None:
            self.results["stress"] = _array(out.stress[0][_VOIGT])
        if has_stress and not periodic:
            virial = _array(out.virial)[0]
            self.results["stress"] = -virial[_VOIGT] / self.atoms.cell.volume

    def check_state(self, atoms: Any, tol: float = 1e-15) -> list[str]:
        """Return what has changed since the last calculation; called by ASE."""
        found: list[str] = super().check_state(atoms, tol)
        if found or all(
            state_of(atoms.info, name) == state_of(self.atoms.info, name) for name in USUAL_STATE
        ):
            return found
        return ["info"]

    def _evaluate(self, batch: AtomicBatch, stress: bool) -> tuple[Any, ...]:
        """Return the output, and uncertainties of energy and forces if there are any."""
        if len(self._members) > 1:
            return committee_output([frozen(m)(batch, stress=stress) for m in self._members])
        model, uncertainty = frozen(self._members[0]), self.uncertainty
        if uncertainty is None:
            return (model(batch, stress=stress),)
        out = model(batch, stress=stress, features=True)
        return out, *uncertainty(out, batch)

    def batch(self, atoms: Any) -> AtomicBatch:
        """Build the edges of an ``ase.Atoms``, as one system on the device of the potential."""
        model = self._members[0]
        weight = model.embedding.weight
        if weight.dtype not in {torch.float32, torch.float64}:
            raise TypeError(
                f"weights must be float32 or float64, got {weight.dtype}: call model.float()"
            )
        numbers = torch.from_numpy(np.array(atoms.numbers, np.int64))
        model.species_of(numbers.to(weight.device))  # before any list is built
        batch = AtomicBatch.from_ase(
            atoms,
            model.config.cutoff,
            dtype=torch.float64,  # unwrapped atoms may be far from the origin
            vector_dtype=weight.dtype,
            verlet=self._list_of(atoms),
        )
        return batch.to(weight.device)

    def get_hessian(self, atoms: Any = None) -> NDArray[np.float64]:
        """Compute second derivatives of the energy, (3 atoms, 3 atoms), in eV/angstrom^2.

        By default for the atoms of the last calculation.
        """
        atoms = self.atoms if atoms is None else atoms
        if atoms is None:
            raise ValueError("nothing was calculated yet: call get_hessian(atoms)")
        batch = self.batch(atoms)
        return np.mean([_array(hessian(model, batch)) for model in self._members], axis=0)


def members_of(model: Any) -> tuple[MessagePassingPotential, ...]:
    """Return the potentials of a committee, or the only one, before they are checked."""
    is_one = isinstance(model, nn.Module) or not isinstance(model, Iterable)
    return (model,) if is_one else tuple(model)


def check_members(
    models: Sequence[MessagePassingPotential], uncertainty: LastLayerUncertainty | None
) -> None:
    """Raise unless potentials are alike, and are one of the same species as its uncertainty."""
    if not models or not all(isinstance(model, MessagePassingPotential) for model in models):
        raise TypeError(
            f"model must be one or several potentials, or one of several heads, got {shown(models)}"
        )
    if not isinstance(uncertainty, (LastLayerUncertainty, NoneType)):
        raise TypeError(f"uncertainty must be a LastLayerUncertainty, got {kind_of(uncertainty)}")
    kinds = []
    for model in models:
        weight = model.embedding.weight
        config = model.config
        inputs = config.charges, config.spins
        kinds.append(
            (config.species, config.cutoff, config.outputs, inputs, weight.dtype, weight.device)
        )
    for kind in kinds:
        if kind != kinds[0]:
            raise ValueError(
                "potentials of a committee must have equal species, cutoff, outputs, charges and "
                f"spins, dtype and device, got {kinds[0]} and {kind}"
            )
    if uncertainty is not None and (len(models), uncertainty.species) != (1, kinds[0][0]):
        raise ValueError(
            f"uncertainty must be of one potential of the species {list(uncertainty.species)}, got "
            f"{len(models)} of {list(kinds[0][0])}"
        )


def _array(x: Tensor) -> NDArray[np.float64]:
    """Copy to a separate array."""
    return np.array(x.detach().cpu().numpy(), np.float64, order="C")
