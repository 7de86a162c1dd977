"""The special linear group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equigeo.groups.charts.algebra_bases import traceless_symmetric_basis
from equigeo.groups.gl_plus import GLPlus
from equigeo.groups.linear_group import LinearGroup

if TYPE_CHECKING:
    from equigeo.groups.so import SO


class SL(LinearGroup):
    """Matrices that keep volume and orientation: ``det g = 1``.

    Parameters
    ----------
    n : int
        Dimension of space, at least 2.

    Examples
    --------
    >>> SL(2).contains(torch.tensor([[1.0, 3.0], [0.0, 1.0]]))
    tensor(True)
    """

    @property
    def compact(self) -> SO:
        """The rotations SO(n)."""
        from equigeo.groups.so import SO

        return SO(self.n)

    def _positive_basis(self) -> Tensor:
        return traceless_symmetric_basis(self.n)

    def _supergroups(self) -> tuple[LinearGroup, ...]:
        return (GLPlus(self.n),)

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return (torch.linalg.det(g) - 1).abs() <= tol
