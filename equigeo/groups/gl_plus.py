"""The connected general linear group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equigeo.groups.charts.algebra_bases import symmetric_basis
from equigeo.groups.gl import GL
from equigeo.groups.linear_group import LinearGroup

if TYPE_CHECKING:
    from equigeo.groups.so import SO


class GLPlus(LinearGroup):
    """Matrices of positive determinant.

    Parameters
    ----------
    n : int
        Dimension of space, at least 2.

    Examples
    --------
    >>> GLPlus(3).generators().shape
    torch.Size([9, 3, 3])
    """

    @property
    def compact(self) -> SO:
        """The rotations SO(n)."""
        from equigeo.groups.so import SO

        return SO(self.n)

    def _positive_basis(self) -> Tensor:
        return symmetric_basis(self.n)

    def _supergroups(self) -> tuple[LinearGroup, ...]:
        return (GL(self.n),)

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return torch.linalg.det(g) > 0
