"""Neighbor lists of periodic systems, equal for several libraries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd import forward_ad

from equigeo._core.brief import brief_repr
from equigeo._core.checks import TensorLike, check_shape
from equigeo._core.tensors import lasting, without_transforms
from equigeo.graphs.backend_choice import choose_backend
from equigeo.graphs.backends import Backend
from equigeo.graphs.cell_list import Found, cell_edges, lattices_of
from equigeo.graphs.edge_index import EdgeIndex
from equigeo.graphs.edge_search import find_edges, join_edges
from equigeo.graphs.systems import GivenSystems, given_flag, given_systems

# Edges for which waiting for the number of those that cross a cell takes less than their sums.
_MANY: Final = 2**20


@dataclass(frozen=True, eq=False, repr=False)
class NeighborList:
    """Edges with the lattice vectors between their ends; see :func:`equigeo.graphs.neighbor_list`.

    Parameters
    ----------
    edge_index : Tensor, (2, edges), int64
        Row 0 sources, row 1 targets; sorted by target, source and shift.
    shifts : Tensor, (edges, 3), int32
        Multiples of the lattice vectors that are added to the target.
    vectors : Tensor, (edges, 3), dtype of positions
        From source to target; differentiable in positions and cell.
    num_nodes : int
        Number of points.
    cutoff : float
        Upper bound of the lengths.
    half : bool
        Whether only one of an edge and its reverse is listed.
    backend : str
        Backend of the search.
    batch : Tensor, (points,), int64, optional
        System of each point; None for a single system.

    Examples
    --------
    >>> from equigeo.graphs import neighbor_list
    >>> neighbor_list(torch.zeros(1, 3), 1.5, torch.eye(3))
    NeighborList(edge_index=(2, 18) int64, shifts=(18, 3) int32, vectors=(18, 3) float32, \
num_nodes=1, cutoff=1.5, half=False, backend='scipy')
    """

    edge_index: Tensor
    shifts: Tensor
    vectors: Tensor
    num_nodes: int
    cutoff: float
    half: bool
    backend: str
    batch: Tensor | None = None

    __repr__ = brief_repr

    @property
    def num_edges(self) -> int:
        """Number of directed edges."""
        return self.edge_index.shape[1]

    @property
    def distances(self) -> Tensor:
        """Lengths of the vectors, (edges,); their gradient at coincident points is zero."""
        return torch.linalg.vector_norm(self.vectors, dim=1)

    @cached_property
    def edges(self) -> EdgeIndex:
        """The edges with the orders that layers need, computed on first use."""
        with lasting(self.edge_index):
            return EdgeIndex.from_valid_edges(
                self.edge_index.clone(), self.num_nodes, self.num_nodes
            )

    def edge_vectors(self, positions: Tensor, cell: Tensor | None = None) -> Tensor:
        """Compute ``positions[target] - positions[source] + shifts @ cell`` for the same edges.

        Differences are computed in float64 and returned in the dtype of ``positions``, (edges, 3).

        Parameters
        ----------
        positions : Tensor, (points, 3), floating
            Other positions of the same points.
        cell : Tensor, (3, 3) or (systems, 3, 3), floating, optional
            Rows are lattice vectors; required if any shift is nonzero.

        Examples
        --------
        >>> from equigeo.graphs import neighbor_list
        >>> edges = neighbor_list(torch.zeros(1, 3), 1.1, torch.eye(3))
        >>> edges.edge_vectors(torch.zeros(1, 3), 2 * torch.eye(3)).norm(dim=1)
        tensor([2., 2., 2., 2., 2., 2.])
        """
        check_shape(positions, "positions", (self.num_nodes, "dim"))
        source, target = self.edge_index
        x = positions.double()
        vectors = x.index_select(0, target) - x.index_select(0, source)
        if cell is not None:
            moved = shift_vectors(self.shifts, source, self.batch, cell.double())
            vectors = vectors + moved
        elif bool(self.shifts.any()):
            raise ValueError("cell must be given, since edges cross it, got None")
        return vectors.to(positions.dtype)

    def to(self, device: torch.device | str) -> NeighborList:
        """Move every tensor to a device."""
        moved: dict[str, Any]
        moved = {name: x.to(device) for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **moved)


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
    and cells may be skewed or left-handed. CUDA tensors are searched on the GPU, others on the CPU.
    Vectors rotate and reflect with positions and cell; permuting points permutes edges.

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
        ``auto`` (``cells`` for CUDA tensors, otherwise ``scipy``); ``cells``, tensor operations on
        the device of the positions; ``scipy``, ``torch-cluster`` (no periodic axes) or ``brute``,
        which search on the CPU.

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
    chosen = choose_backend(backend, given.periodic, given.positions.device.type)
    with lasting(given.positions):
        search = _search_device if chosen.on_device and len(given.positions) else _search_host
        listed = search(given, chosen)
        listed = _halved(listed) if half else listed
    return _with_gradients(listed, given)


def _search_host(given: GivenSystems, backend: Backend) -> NeighborList:
    found = [find_edges(system, backend) for system in given.systems()]
    pairs, shifts, vectors = map(torch.from_numpy, join_edges(found, given.offsets))
    return _listed(given, backend, pairs, shifts, vectors)


def _search_device(given: GivenSystems, backend: Backend) -> NeighborList:
    lattices = lattices_of(given)
    x = without_transforms(given.positions).double()
    batch, cell = (
        None if value is None else without_transforms(value) for value in (given.batch, given.cell)
    )

    def measure(found: Found) -> Tensor:
        vectors = x.index_select(0, found.target) - x.index_select(0, found.source)
        if found.shift is None or cell is None:
            return vectors
        shifts, source, lattice = found.shift, found.source, cell.double()
        if len(shifts) < _MANY:
            return vectors + shift_vectors(shifts, source, batch, lattice)
        # Usually a few edges cross the cell.
        rows = shifts.any(1).nonzero().squeeze(1)
        shifts, source = shifts.index_select(0, rows), source.index_select(0, rows)
        return vectors.index_add_(0, rows, shift_vectors(shifts, source, batch, lattice))

    systems = len(given.offsets) - 1
    found = cell_edges(x, given.cutoff, batch, systems, lattices, measure, given.systems)
    vectors = measure(found)
    shifts = torch.zeros_like(vectors, dtype=torch.int32) if found.shift is None else found.shift
    return _listed(given, backend, torch.stack([found.source, found.target]), shifts, vectors)


def _listed(
    given: GivenSystems, backend: Backend, pairs: Tensor, shifts: Tensor, vectors: Tensor
) -> NeighborList:
    device = given.positions.device
    return NeighborList(
        edge_index=pairs.to(device),
        shifts=shifts.to(device),
        vectors=vectors.to(device, given.positions.dtype),
        num_nodes=len(given.positions),
        cutoff=given.cutoff,
        half=False,
        backend=backend.name,
        batch=given.batch,
    )


def shift_vectors(
    shifts: Tensor,  # (edges, 3)
    source: Tensor,  # (edges,)
    batch: Tensor | None,  # (points,)
    cell: Tensor,  # (3, 3) or (systems, 3, 3) float64
) -> Tensor:
    """Multiply shifts by cells, (edges, 3), to be added as in the search."""
    systems = cell.shape[0] if cell.ndim == 3 else 1
    if cell.shape[-2:] != (3, 3) or cell.ndim not in (2, 3):
        raise ValueError(f"cell must be (3, 3) or (systems, 3, 3), got {tuple(cell.shape)}")
    numbers = shifts.double()[:, :, None]
    if cell.ndim == 3 and batch is None and systems != 1:
        raise ValueError(f"cell must be (3, 3) for one system, got {tuple(cell.shape)}")
    if systems != 1 and batch is not None:
        rows = cell.index_select(0, batch.index_select(0, source))
    else:
        rows = cell.reshape(1, 3, 3)
    first, second, third = (numbers[:, k] * rows[:, k] for k in range(3))
    moved = first + second + third
    # As a search, which adds nothing for edges inside of the cell: -0.0 keeps the sign of zeros.
    return moved.where(shifts.any(1, keepdim=True), -0.0)


def _halved(edges: NeighborList) -> NeighborList:
    source, target = edges.edge_index
    first, second, third = edges.shifts.unbind(1)
    first = first.where(first != 0, second.where(second != 0, third))
    kept = (source < target) | ((source == target) & (first > 0))
    kept = kept.nonzero().squeeze(1)
    return replace(selected(edges, kept, edges.vectors, edges.vectors.dtype), half=True)


def selected(
    found: NeighborList,
    kept: Tensor,  # numbers of edges
    vectors: Tensor,  # of all edges
    dtype: torch.dtype,  # of the vectors that are returned
) -> NeighborList:
    """Return some edges of a list."""
    return replace(
        found,
        edge_index=found.edge_index.index_select(1, kept),
        shifts=found.shifts.index_select(0, kept),
        vectors=vectors.index_select(0, kept).to(dtype),
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
