"""Second derivatives of energies."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.graphs.inputs import check_shape
from equigeo.potentials.atomic_batch import AtomicBatch
from equigeo.potentials.message_passing_potential import MessagePassingPotential

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
