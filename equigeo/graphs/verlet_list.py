"""Neighbor lists of slowly moving points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Final, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo._core.checks import TensorLike, as_tensor
from equigeo._core.tensors import lasting, without_transforms
from equigeo.graphs.cell_list import closer
from equigeo.graphs.neighbor_list import NeighborList, neighbor_list, selected
from equigeo.graphs.systems import Doubles, as_doubles, given_cutoff, given_points

DEFAULT_SKIN: Final = 0.5  # in angstrom, equal to JAX MD and close to ASE
# Shifts reach (cutoff + extent) / height, and the deformation has errors of 2^-52 of lengths. If
# the condition is below the first constant, the rounding errors of both are below the second.
_WORST_CONDITION: Final = 1e6
_ROUNDING: Final = 1e-9

_Group: TypeAlias = Tensor | NDArray[np.generic] | None


@final
class VerletList:
    r"""Edges of slowly moving points, with a new search only when necessary.

    All edges shorter than ``cutoff + skin`` are listed once. Until another edge may have become
    shorter than the cutoff, the current edges are selected from them. Edges and their order are
    bitwise those of :func:`equigeo.graphs.neighbor_list`. With positions :math:`x_0` and cell
    :math:`H_0` of the search and :math:`H = H_0 F`, the list stays valid while

    .. math:: \|F^{-1}\| \, (\text{cutoff} + 2 \max_i |x_i - x_{0,i} F|)
              \le \text{cutoff} + \text{skin}.

    Wrapping a point into the cell causes a search (L. Verlet, Phys. Rev. 159, 1967).

    Parameters
    ----------
    cutoff, skin : float
        In the unit of positions; with a skin of 0 every update is a search.
    backend : str
        See :func:`equigeo.graphs.neighbor_list`.

    Attributes
    ----------
    rebuilds : int
        Number of searches.

    Examples
    --------
    >>> import torch
    >>> moving, points = VerletList(1.0, skin=0.2), torch.tensor([[0.0, 0, 0], [1.05, 0, 0]])
    >>> moving.update(points).num_edges
    0
    >>> moving.update(points * 0.95).num_edges, moving.rebuilds
    (2, 1)
    """

    def __init__(self, cutoff: float, skin: float = DEFAULT_SKIN, *, backend: str = "auto") -> None:
        self.cutoff = given_cutoff(cutoff)
        is_zero = isinstance(skin, (Real, Tensor)) and not isinstance(skin, bool) and skin == 0
        self.skin = 0.0 if is_zero else given_cutoff(skin, "skin")
        self.backend = backend
        self.rebuilds = 0
        self._search: _Search | None = None

    def update(
        self,
        positions: TensorLike,
        cell: TensorLike | None = None,
        pbc: bool | Sequence[bool] | TensorLike | None = None,
        *,
        batch: TensorLike | None = None,
        ptr: TensorLike | None = None,
    ) -> NeighborList:
        """Return all edges shorter than the cutoff.

        Arguments, result and errors are those of :func:`equigeo.graphs.neighbor_list`. Other
        systems than in the last call cause a search.
        """
        points = given_points(positions)
        lattice = None if cell is None else as_tensor(cell, "cell", like=points)
        groups = [_copied(_on_host(pbc)), _copied(batch), _copied(ptr)]
        if self._search is None or not self._search.holds(points, lattice, groups, self.cutoff):
            # Kept for calls that are differentiated, whatever this one is.
            with lasting(points):
                found = neighbor_list(
                    without_transforms(points).clone(),
                    self.cutoff + self.skin,
                    None if lattice is None else without_transforms(lattice).clone(),
                    pbc,
                    batch=batch,
                    ptr=ptr,
                    backend=self.backend,
                )
            self.rebuilds += 1
            # Copies, because callers move points in place.
            x = _kept(points, torch.float64)
            h = None if lattice is None else as_doubles(lattice).copy()
            self._search = _Search(found, x, h, groups) if self.skin else None
        else:
            found = self._search.found
        return _shorter(found, self.cutoff, points, lattice)


@dataclass(frozen=True)
class _Search:
    """Neighbor list with an enlarged cutoff, and the system that it belongs to."""

    found: NeighborList
    positions: Tensor  # (points, 3) float64 at the time of the search
    cell: Doubles | None  # (3, 3) or (systems, 3, 3)
    groups: list[_Group]  # periodic axes, batch and offsets, as given

    def holds(
        self, points: Tensor, lattice: Tensor | None, groups: list[_Group], cutoff: float
    ) -> bool:
        """Return whether the list certainly includes all edges shorter than a cutoff."""
        found = self.found
        # Also False for inputs that a search would reject.
        if points.device != found.edge_index.device or (lattice is None) != (self.cell is None):
            return False
        if lattice is not None and (lattice.dtype, lattice.device) != (points.dtype, points.device):
            return False
        if points.shape != self.positions.shape or not all(map(_same, groups, self.groups)):
            return False
        cell = None if lattice is None else as_doubles(lattice)
        with lasting(points), np.errstate(over="ignore", invalid="ignore"):
            x = _kept(points, torch.float64)
            stretch, displacements = self._deformation(x, cell)
            squares = displacements.square().sum(1)
            # NaN and infinity do not hold either.
            moved, farthest = torch.stack([_largest(squares).sqrt(), _largest(x.abs())]).tolist()
            slack = _ROUNDING * (cutoff + farthest)
            return bool(stretch * (cutoff + 2 * moved) + slack <= found.cutoff)

    def _deformation(self, x: Tensor, cell: Doubles | None) -> tuple[float, Tensor]:
        """Return the norm of the inverse lattice deformation, and the displacements."""
        if cell is None or _same(cell, self.cell):
            return 1.0, x - self.positions
        if self._inverse is None or self.cell is None or cell.shape != self.cell.shape:
            return np.inf, x
        # The identity across axes that are not periodic: their vectors are ignored.
        matrix = np.eye(3) + self._inverse @ (cell - self.cell)
        if not np.isfinite(matrix).all():
            return np.inf, x
        smallest = float(np.linalg.svd(matrix, compute_uv=False).min())
        deformation, batch = torch.from_numpy(matrix).to(x.device).view(-1, 3, 3), self.found.batch
        if len(deformation) > 1 and batch is not None:
            deformation = deformation.index_select(0, batch)
        moved = x - (self.positions[:, :, None] * deformation).sum(1)
        return (1 / smallest if smallest > 0 else np.inf), moved

    @cached_property
    def _inverse(self) -> Doubles | None:
        """Invert the periodic vectors, (systems, 3, 3) or (3, 3); None if that is not reliable."""
        if self.cell is None:
            return None
        axes = np.asarray(True if self.groups[0] is None else self.groups[0])
        axes = np.broadcast_to(axes, np.broadcast_shapes(axes.shape, self.cell.shape[:-1]))
        rows = np.where(axes[..., None], self.cell, 0.0)
        if not axes.any() or not rows.size:
            return np.zeros(rows.shape)
        inverse = np.linalg.pinv(rows, rcond=1e-15)  # dependent vectors raise before
        sizes = [np.linalg.norm(x, axis=(-2, -1)) for x in (rows, inverse)]
        return inverse if (sizes[0] * sizes[1]).max() < _WORST_CONDITION else None


def _shorter(
    found: NeighborList, cutoff: float, points: Tensor, lattice: Tensor | None
) -> NeighborList:
    """Select the edges shorter than a cutoff, by the same sums as a search."""
    cell = None if lattice is None else lattice.double()
    vectors = found.edge_vectors(points.double(), cell)
    kept = closer(vectors.detach(), cutoff).nonzero().squeeze(1)
    return replace(selected(found, kept, vectors, points.dtype), cutoff=cutoff)


def _kept(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Copy a tensor below transforms, on its device."""
    with lasting(x):
        return without_transforms(x).to(dtype, copy=True)


def _largest(x: Tensor) -> Tensor:
    return x.amax() if x.numel() else x.new_zeros(())


def _on_host(x: object) -> object:
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else x


def _copied(x: object) -> _Group:
    if isinstance(x, Tensor):
        return _kept(x, x.dtype)
    return None if x is None else np.array(x)


def _same(x: _Group, y: _Group) -> bool:
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return (x.dtype, x.device) == (y.dtype, y.device) and torch.equal(x, y)
    if x is None or y is None or isinstance(x, Tensor) or isinstance(y, Tensor):
        return x is y
    return np.array_equal(x, y)
