"""Edges of periodic systems with differentiable vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs.brief_repr import brief_repr
from equigeo.graphs.edge_index import EdgeIndex
from equigeo.graphs.inputs import check_shape
from equigeo.ops.runtime.torch_internals import lasting


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
            return EdgeIndex.from_valid_edges(self.edge_index, self.num_nodes, self.num_nodes)

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
        >>> positions, cell = torch.zeros(1, 3), torch.eye(3)
        >>> edges = neighbor_list(positions, 1.1, cell)
        >>> strain = torch.zeros(3, 3, requires_grad=True)
        >>> deformation = torch.eye(3) + strain
        >>> vectors = edges.edge_vectors(positions @ deformation, cell @ deformation)
        >>> torch.autograd.grad(vectors.square().sum() / 2, strain)[0].diagonal()
        tensor([2., 2., 2.])
        """
        check_shape(positions, "positions", (self.num_nodes, "dim"))
        source, target = self.edge_index
        x = positions.double()
        vectors = x.index_select(0, target) - x.index_select(0, source)
        if cell is not None:
            vectors = vectors + self._shift_vectors(cell.double())
        elif bool(self.shifts.any()):
            raise ValueError("cell must be given, since edges cross it, got None")
        return vectors.to(positions.dtype)

    def _shift_vectors(self, cell: Tensor) -> Tensor:
        """Multiply shifts by cells, summed in the same order as in the search."""
        systems = cell.shape[0] if cell.ndim == 3 else 1
        if cell.shape[-2:] != (3, 3) or cell.ndim not in (2, 3):
            raise ValueError(f"cell must be (3, 3) or (systems, 3, 3), got {tuple(cell.shape)}")
        numbers = self.shifts.double()[:, :, None]
        if cell.ndim == 3 and self.batch is None and systems != 1:
            raise ValueError(f"cell must be (3, 3) for one system, got {tuple(cell.shape)}")
        if systems != 1 and self.batch is not None:
            rows = cell.index_select(0, self.batch.index_select(0, self.edge_index[0]))
        else:
            rows = cell.reshape(1, 3, 3)
        first, second, third = (numbers[:, k] * rows[:, k] for k in range(3))
        return first + second + third

    def to(self, device: torch.device | str) -> NeighborList:
        """Move every tensor to a device."""
        moved: dict[str, Any]
        moved = {name: x.to(device) for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **moved)
