"""Neighbour lists of periodic systems, equal for several libraries."""

from __future__ import annotations

from collections.abc import Sequence

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

    An edge ``(s, t, n)`` stands for the vector ``positions[t] - positions[s] + n @ cell``. All are
    listed whose length is less than the cut-off, except from a point to itself: every image counts,
    however many there are, and a point is a neighbour of its own images. Lengths are those of
    positions and cell as they are given, converted to float64, so that no backend gives another
    list, to the last bit; an edge exactly as long as the cut-off is not listed.

    Positions may lie anywhere, cells may be skewed and left-handed, and what stands in ``cell`` for
    an axis that is not periodic means nothing.

    Parameters
    ----------
    positions : Tensor or ndarray, (points, 3), floating
        Points of all systems, never wrapped into a cell.
    cutoff : float
        In the unit of positions.
    cell : Tensor or ndarray, (3, 3) or (systems, 3, 3), dtype of ``positions``, optional
        Rows are lattice vectors; one cell for all systems, or one each.
    pbc : bool, or Tensor, ndarray or sequence, (3,) or (systems, 3), bool, optional
        Which axes are periodic: all by default where there is a cell, otherwise none.
    batch : Tensor, (points,), int64, optional
        Number of the system of each point, ascending, as in PyTorch Geometric. No edge joins two.
    ptr : Tensor, (systems + 1,), int64, optional
        Offsets of the systems instead.
    half : bool
        List of an edge and its reverse only the one with ``s < t`` or, between images of one
        point, whose first shift that is not zero is positive.
    backend : str
        Who lists candidates: ``scipy`` (a tree over explicit images, always there), ``vesin``,
        ``matscipy``, ``torch-cluster`` (where nothing is periodic), ``brute`` (all pairs and
        images), or ``auto``: ``scipy``, the fastest for many points.

    Returns
    -------
    NeighborList
        Edges sorted by target, source and shift, with vectors that have gradients. Searches are on
        the CPU; tensors are on the device of the positions.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
    ValueError
        If shapes do not fit, a number is not finite, the cut-off is not positive or reaches more
        edges than memory holds, or periodic lattice vectors are linearly dependent.
    ImportError
        If the package of a backend is not there, or too old.
    RuntimeError
        If a backend gives a list that cannot be right; while a program is compiled or exported.

    Equivariance
    ------------
    Vectors rotate and reflect with positions and cell; the edges are invariant to isometries, but
    for lengths that rounding moves across the cut-off. Permuting points permutes edges.

    Examples
    --------
    >>> copper = torch.tensor([[0.0, 1.8075, 1.8075], [1.8075, 0, 1.8075], [1.8075, 1.8075, 0]])
    >>> edges = neighbor_list(torch.zeros(1, 3), 5.0, copper)
    >>> edges.num_edges, round(float(edges.distances.sum()), 3)
    (42, 158.623)
    >>> points = torch.tensor([[0.0, 0, 0], [0.5, 0, 0], [0, 0, 0]])
    >>> neighbor_list(points, 1.0, batch=torch.tensor([0, 0, 1])).edge_index.tolist()
    [[1, 0], [0, 1]]
    """
    given = given_systems(positions, cutoff, cell, pbc, batch, ptr)
    given_flag(half, "half")
    chosen = choose_backend(backend, given.periodic, 3)
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
    return NeighborList(**{**vars(listed), "vectors": vectors})


def _differentiated(x: Tensor) -> bool:
    if torch.is_grad_enabled() and x.requires_grad:
        return True
    return forward_ad.unpack_dual(x).tangent is not None
