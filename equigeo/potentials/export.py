"""Potentials as programs that run without Python."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram
from torch.nn.functional import pad

from equigeo._core.tensors import check_in_program, record_program
from equigeo.ops.runtime.package import write_package
from equigeo.potentials.batch import AtomicBatch
from equigeo.potentials.frozen import frozen
from equigeo.potentials.potential import SHORTEST_EDGE, MessagePassingPotential

_Inputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def export_program(model: MessagePassingPotential) -> ExportedProgram:
    """Export energies and forces of one system for any number of atoms and edges.

    Inputs of the program, in this order:

    ============  ==================  =======  =====================================================
    numbers       (atoms,)            int64    atomic numbers
    positions     (atoms, 3)          float64  in angstrom
    cell          (3, 3)              float64  rows are lattice vectors; zeros without a cell
    edge_index    (2, edges)          int64    sources and targets, in any order
    shifts        (edges, 3)          int32    multiples of lattice vectors, added to targets
    charge        ()                  int64    total charge, only with ``config.charges``
    spin          ()                  int64    spin multiplicity, only with ``config.spins``
    ============  ==================  =======  =====================================================

    Outputs, in float64: the energy, (), and its share per atom, (atoms,), in eV; forces, (atoms,
    3), in eV/angstrom; the virial, (3, 3), in eV, minus the derivative to strain. Edges must
    contain both directions of each pair; edges beyond the cutoff have no effect. Unknown elements,
    charges and spins, coincident atoms and indices out of range raise.

    On the CPU, radial networks become splines of the distance, exact to rounding from zero to the
    cutoff, except where no splines are.

    Parameters
    ----------
    model : MessagePassingPotential
        In eval mode, in float32 or float64; its weights are copied.

    Examples
    --------
    >>> from equigeo.potentials import PotentialConfig
    >>> model = MessagePassingPotential(PotentialConfig((1, 8), channels=2, lmax_edge=1)).eval()
    >>> program = export_program(model)  # doctest: +SKIP
    >>> water = torch.tensor([[0.0, 0, 0], [0.8, 0.6, 0], [-0.8, 0.6, 0]])
    >>> batch = AtomicBatch.from_systems([(torch.tensor([8, 1, 1]), water, None, False)], 5.0)
    >>> inputs = batch.numbers, water.double(), torch.zeros(3, 3).double()
    >>> out = program.module()(*inputs, batch.edge_index, batch.shifts)  # doctest: +SKIP
    >>> [tuple(x.shape) for x in out]  # doctest: +SKIP
    [(), (3,), (3, 3), (3, 3)]
    """
    dtype = check_exportable(model)
    function, example = _energies_and_forces(model, dtype), example_inputs(model)
    known = (example[0].new_tensor(embed.known[0]) for embed in model.states.values())
    inputs = (*example, *known)
    # Tables that are made on first use must not be made while a program is recorded: they are kept.
    function(*inputs)
    atoms, edges = Dim("atoms"), Dim("edges")
    sizes: list[dict[int, Any]] = [{0: atoms}, {0: atoms}, {}, {1: edges}, {0: edges}]
    sizes += [{} for _ in model.states]
    return torch.export.export(
        record_program(function, inputs), inputs, dynamic_shapes=tuple(sizes)
    )


def compile_package(model: MessagePassingPotential, path: str | os.PathLike[str]) -> Path:
    """Compile :func:`export_program` into a package that C++ runs, by AOTInductor.

    The package is for the device of the potential and, on the CPU, for processors like this one.
    The process that loads it loads the library of ``equigeo.kernels_info()`` first; without
    compiled kernels, ``RuntimeError`` is raised. Its metadata are text: ``cutoff`` in angstrom,
    ``species`` (atomic numbers, separated by spaces), ``layers`` and ``dtype`` of the weights.

    Parameters
    ----------
    model : MessagePassingPotential
        In eval mode, in float32 or float64.
    path : str or path
        Ends in ``.pt2``, in a folder that exists.

    Examples
    --------
    >>> from equigeo.potentials import PotentialConfig
    >>> model = MessagePassingPotential(PotentialConfig((1, 8))).eval()
    >>> compile_package(model, "water.pt2")  # doctest: +SKIP
    PosixPath('water.pt2')
    """
    dtype, config = check_exportable(model), model.config
    metadata = {
        "cutoff": repr(config.cutoff),
        "species": " ".join(map(str, config.species)),
        "layers": str(config.layers),
        "dtype": str(dtype).removeprefix("torch."),
    }
    device = model.embedding.weight.device
    return write_package(path, lambda: export_program(model), device, metadata)


def check_exportable(model: MessagePassingPotential) -> torch.dtype:
    """Return the dtype of the weights; raise unless the potential can be exported."""
    if not isinstance(model, MessagePassingPotential):
        raise TypeError(f"model must be a MessagePassingPotential, got {type(model).__name__}")
    dtype = model.embedding.weight.dtype
    if dtype not in {torch.float32, torch.float64}:
        raise TypeError(f"weights must be float32 or float64, got {dtype}: call model.float()")
    if model.training:
        raise ValueError("the potential must be in eval mode, got training mode: call model.eval()")
    return dtype


def _energies_and_forces(
    model: MessagePassingPotential, dtype: torch.dtype
) -> Callable[..., tuple[Tensor, ...]]:
    """Return a function of tensors with checks that are recorded in the program."""
    model = copy.deepcopy(frozen(model)).requires_grad_(False)
    cutoff, species = model.config.cutoff, model.config.species

    def function(
        numbers: Tensor,
        positions: Tensor,
        cell: Tensor,
        edge_index: Tensor,
        shifts: Tensor,
        *given: Tensor,
    ) -> tuple[Tensor, ...]:
        states = {name: x[None] for name, x in zip(model.states, given, strict=True)}
        for name, embed in model.states.items():
            check_in_program(
                embed.is_known(states[name]).all(), f"{name} must be among {list(embed.known)}"
            )
        rows = model.embed_states(states, torch.ones_like(numbers).sum()[None])
        known = model.species_of(numbers) >= 0
        check_in_program(known.all(), f"atomic numbers must be among {list(species)}")
        inside = (edge_index >= 0) & (edge_index < numbers.shape[0])
        check_in_program(
            inside.all(), "edge_index must be at least 0 and below the number of atoms"
        )
        # Compiled programs may run checks last, and abort where an index is out of range: indices
        # that a check rejects are replaced, if need be by that of one more atom, without edges.
        numbers = pad(torch.where(known, numbers, species[0]), (0, 1), value=species[0])
        edge_index = torch.where(inside, edge_index, numbers.shape[0] - 1)
        x = pad(positions.detach(), (0, 0, 0, 1)).requires_grad_(True)
        strain = positions.new_zeros(1, 3, 3).requires_grad_(True)
        system, ptr = torch.zeros_like(numbers), numbers.new_zeros(2)
        pbc = torch.ones(1, 3, dtype=torch.bool, device=numbers.device)
        batch = AtomicBatch(
            numbers, x, cell.detach()[None], pbc, edge_index, shifts, system, ptr, cutoff
        )
        vectors = batch.vectors(strain)
        check_apart(torch.where(inside.all(0)[:, None], vectors, 1.0))
        energies = model.energies_of_edges(
            numbers,
            batch.edges,
            vectors.to(dtype),
            states={name: x.expand(numbers.shape[0], -1) for name, x in rows.items()},
        )
        slope, by_strain = torch.autograd.grad(energies.sum(), (x, strain))
        energies = energies[:-1].detach()
        return energies.sum(), energies, -slope[:-1], -by_strain[0]

    return function


def check_apart(vectors: Tensor) -> None:
    """Record a check that no edge vectors (edges, 3) are zero."""
    apart = (vectors.detach().square().sum(dim=1) > SHORTEST_EDGE**2).all()
    check_in_program(apart, "atoms must not coincide")


def example_inputs(model: MessagePassingPotential) -> _Inputs:
    """Return inputs for the export with sizes that differ from each other and from 0 to 3."""
    device, atoms = model.embedding.weight.device, 5
    positions = torch.eye(atoms, 3, dtype=torch.float64) + torch.arange(atoms)[:, None]
    edges = torch.cartesian_prod(torch.arange(atoms), torch.arange(atoms)).T
    edges = edges[:, edges[0] != edges[1]].contiguous()
    inputs = (
        torch.full((atoms,), model.config.species[0]),
        positions,
        torch.zeros(3, 3, dtype=torch.float64),
        edges,
        torch.zeros(edges.shape[1], 3, dtype=torch.int32),
    )
    return tuple(x.to(device) for x in inputs)  # type: ignore[return-value]
