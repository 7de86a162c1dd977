"""Conversion of potentials to metatomic."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from equigeo.interop._require import require
from equigeo.interop.script_program import script_program
from equigeo.ops.runtime.torch_internals import record_program
from equigeo.potentials import AtomicBatch, MessagePassingPotential
from equigeo.potentials.compile_package import check_apart, check_exportable, example_inputs

_Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


def to_metatomic(model: MessagePassingPotential, metadata: Any = None) -> Any:
    """Convert a potential to a model for engines of metatomic, including C++ without Python.

    The engine computes neighbour lists and differentiates energies once, by positions and cells:
    the model contains gradients. Second derivatives and energies per atom are not available, and
    raise if requested. Engines load the compiled kernels, which
    ``save(path, collect_extensions=folder)`` copies; in Python ``import equigeo`` loads them or
    their reference implementations.

    Parameters
    ----------
    model : MessagePassingPotential
        In eval mode, float32 or float64; weights are copied.
    metadata : metatomic.torch.ModelMetadata, optional
        Name, authors and references.

    Returns
    -------
    metatomic.torch.AtomisticModel
        For the device of the potential: "energy" of systems in eV, lengths in angstrom, in float64
        for any dtype of the weights. ``save`` writes a file.

    References
    ----------
    https://docs.metatensor.org/metatomic

    Examples
    --------
    >>> from equigeo.potentials import PotentialConfig
    >>> model = MessagePassingPotential(PotentialConfig((1, 8), channels=2, lmax_edge=1)).eval()
    >>> exported = to_metatomic(model)  # doctest: +SKIP
    >>> exported.capabilities().atomic_types  # doctest: +SKIP
    [1, 8]
    """
    dtype = check_exportable(model)
    metatomic = require("metatomic.torch", "metatomic-torch")
    # It asks what it imports for types, and so must not be imported before.
    from equigeo.interop.metatomic_energy import MetatomicEnergy

    function, inputs = _energies_and_slopes(model, dtype), _example(model)
    # Tables that are made on first use must not be made while a program is recorded: they are kept.
    function(*inputs)
    recorded = record_program(function, inputs)
    recorded.graph.eliminate_dead_code()
    config = model.config
    options = metatomic.NeighborListOptions(cutoff=config.cutoff, full_list=True, strict=True)
    energy = metatomic.ModelOutput(unit="eV", sample_kind="system", explicit_gradients=[])
    capabilities = metatomic.ModelCapabilities(
        outputs={"energy": energy},
        atomic_types=list(config.species),
        interaction_range=config.layers * config.cutoff,
        length_unit="angstrom",
        supported_devices=[model.embedding.weight.device.type],
        dtype="float64",
    )
    module = MetatomicEnergy(script_program(recorded), options).eval()
    given = metatomic.ModelMetadata() if metadata is None else metadata
    return metatomic.AtomisticModel(module, given, capabilities)


def _energies_and_slopes(
    model: MessagePassingPotential, dtype: torch.dtype
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return a function of tensors with checks that are recorded with it."""
    model = copy.deepcopy(model).requires_grad_(False)

    def function(
        numbers: Tensor, weights: Tensor, edge_index: Tensor, vectors: Tensor
    ) -> tuple[Tensor, Tensor]:
        v = vectors.detach().requires_grad_(True)
        check_apart(vectors)
        energies = model.energies(_batch(numbers, edge_index, model.config.cutoff), v.to(dtype))
        (slopes,) = torch.autograd.grad((weights * energies).sum(), v)
        return energies.detach(), slopes

    return function


def _batch(numbers: Tensor, edge_index: Tensor, cutoff: float) -> AtomicBatch:
    """Return atoms with known edges only."""
    nowhere = torch.zeros_like(numbers, dtype=torch.float64)[:, None].expand(-1, 3)
    system, ptr = torch.zeros_like(numbers), numbers.new_zeros(2)
    pbc, shifts = torch.zeros(1, 3, dtype=torch.bool), numbers.new_zeros(0, 3)
    return AtomicBatch(numbers, nowhere, None, pbc, edge_index, shifts, system, ptr, cutoff)


def _example(model: MessagePassingPotential) -> _Inputs:
    """Return example inputs for recording, with distinct sizes of at least 4."""
    numbers, positions, _, edges, _ = example_inputs(model)
    vectors = positions[edges[1]] - positions[edges[0]]
    return numbers, torch.ones_like(positions[:, 0]), edges, vectors
