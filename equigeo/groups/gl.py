"""The general linear group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equigeo.groups.charts.algebra_bases import symmetric_basis
from equigeo.groups.linear_group import LinearGroup

if TYPE_CHECKING:
    from equigeo.groups.o import O


class GL(LinearGroup):
    """All invertible matrices, reflections included.

    Parameters
    ----------
    n : int
        Dimension of space, at least 2.

    Examples
    --------
    >>> GL(2).contains(torch.tensor([[0.0, 2.0], [1.0, 0.0]]))
    tensor(True)
    """

    @property
    def compact(self) -> O:
        """The orthogonal group O(n)."""
        from equigeo.groups.o import O

        return O(self.n)

    def _positive_basis(self) -> Tensor:
        return symmetric_basis(self.n)

    def _supergroups(self) -> tuple[LinearGroup, ...]:
        return ()

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return torch.linalg.det(g) != 0
