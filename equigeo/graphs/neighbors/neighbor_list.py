"""Neighbour lists of periodic systems, equal for several libraries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from equigeo.graphs.inputs import TensorLike
from equigeo.graphs.neighbors.backends.switch import choose_backend
from equigeo.graphs.neighbors.edge_search import Edges, find_edges, no_edges
from equigeo.graphs.neighbors.given_systems import GivenSystems, given_flag, given_systems
from equigeo.graphs.neighbors.result import NeighborList


def neighbor_list(
    positions: TensorLike,
    cutoff: float,
    cell: TensorLike | None = None,
    pbc: bool | Sequence[bool] | TensorLike | None = None,
    *,
    batch: TensorLike | None = None,
    ptr: TensorLike | None = None,
    half: bool = False,
    backend: str = "auto",
) -> NeighborList:
    """Return all edges shorter than a cutoff, between points and periodic images.

    An edge ``(s, t, n)`` has the vector ``positions[t] - positions[s] + n @ cell``. Every image
    counts, also those of the point itself; only the edge from a point to itself is left out.
    Lengths are computed in float64 from positions and cell as given, so that all backends return
    identical edges; edges exactly as long as the cutoff are left out. Positions may lie anywhere
    and cells may be skewed or left-handed. The search runs on the CPU. Vectors rotate and reflect
    with positions and cell; permuting points permutes edges.

    Parameters
    ----------
    positions : Tensor or ndarray, (points, 3), floating
        Points of all systems.
    cutoff : float
        In the unit of positions.
    cell : Tensor or ndarray, (3, 3) or (systems, 3, 3), optional
        Rows are lattice vectors; rows of axes that are not periodic are ignored.
    pbc : bool, or Tensor, ndarray or sequence, (3,) or (systems, 3), bool, optional
        Periodic axes; by default all if there is a cell, otherwise none.
    batch, ptr : Tensor, int64, optional
        System of each point, ascending, or offsets of the systems. No edge joins two systems.
    half : bool
        List only one of an edge and its reverse: that with ``s < t`` or, between images of one
        point, that with a positive first nonzero shift.
    backend : str
        ``auto`` (``scipy``), ``scipy``, ``torch-cluster`` (no periodic axes) or ``brute``.

    Returns
    -------
    NeighborList
        Edges sorted by target, source and shift, on the device of the positions.

    Raises
    ------
    ValueError
        If an argument is invalid or the edges exceed the available memory.
    RuntimeError
        If a backend returns an invalid list, or inside a compiled or exported program.

    Examples
    --------
    >>> copper = torch.tensor([[0.0, 1.8075, 1.8075], [1.8075, 0, 1.8075], [1.8075, 1.8075, 0]])
    >>> edges = neighbor_list(torch.zeros(1, 3), 5.0, copper)
    >>> edges.num_edges, round(float(edges.distances.sum()), 3)
    (42, 158.623)
    """
    given = given_systems(positions, cutoff, cell, pbc, batch, ptr)
    given_flag(half, "half")
    chosen = choose_backend(backend, given.periodic)
    found = [find_edges(system, chosen) for system in given.systems]
    edges = _joined([_halved(part) for part in found] if half else found, given.offsets)
    device = given.positions.device
    pairs, shifts, vectors = (torch.from_numpy(part) for part in edges)
    listed = NeighborList(
        edge_index=pairs.to(device),
        shifts=shifts.to(device),
        vectors=vectors.to(device, given.positions.dtype),
        num_nodes=len(given.positions),
        cutoff=given.cutoff,
        half=bool(half),
        backend=chosen.name,
        batch=given.batch,
    )
    return _with_gradients(listed, given)


def _halved(edges: Edges) -> Edges:
    source, target = edges.pairs
    first = np.zeros(len(source), np.int32)
    for component in edges.shifts.T[::-1]:
        first = np.where(component != 0, component, first)
    kept = (source < target) | ((source == target) & (first > 0))
    return Edges(edges.pairs[:, kept], edges.shifts[kept], edges.vectors[kept])


def _joined(parts: list[Edges], offsets: list[int]) -> Edges:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return no_edges(3)
    return Edges(
        np.concatenate(
            [part.pairs + start for part, start in zip(parts, offsets[:-1], strict=True)], axis=1
        ),
        np.concatenate([part.shifts for part in parts]),
        np.concatenate([part.vectors for part in parts]),
    )


def _with_gradients(listed: NeighborList, given: GivenSystems) -> NeighborList:
    """Recompute vectors with gradients if an input requires them; values are equal."""
    inputs = [given.positions] if given.cell is None else [given.positions, given.cell]
    if not any(map(_differentiated, inputs)):
        return listed
    vectors = listed.edge_vectors(given.positions, given.cell)
    return replace(listed, vectors=vectors)


def _differentiated(x: Tensor) -> bool:
    if torch.is_grad_enabled() and x.requires_grad:
        return True
    return forward_ad.unpack_dual(x).tangent is not None
