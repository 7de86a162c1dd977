"""The linear similarities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equigeo.groups.gl import GL
from equigeo.groups.linear_group import LinearGroup, orthogonality_defect

if TYPE_CHECKING:
    from equigeo.groups.o import O


class Similarity(LinearGroup):
    """Positive multiples of orthogonal matrices: shape is kept, up to size and mirror image.

    ``Affine(Similarity(n))`` adds translations.

    Parameters
    ----------
    n : int
        Dimension of space, at least 2.

    Examples
    --------
    >>> Similarity(2).contains(torch.tensor([[0.0, 3.0], [3.0, 0.0]]))
    tensor(True)
    """

    @property
    def compact(self) -> O:
        """The orthogonal group O(n)."""
        from equigeo.groups.o import O

        return O(self.n)

    def inverse(self, g: Tensor) -> Tensor:
        """Transpose over the squared factor.

        Parameters
        ----------
        g : Tensor, (..., n, n), floating
            Elements.

        Returns
        -------
        Tensor, (..., n, n), dtype of ``g``
            The inverses.
        """
        self.check_shape(g)
        return g.mT / g.square().mean((-2, -1), keepdim=True) / self.n

    def _positive_basis(self) -> Tensor:
        return torch.eye(self.n, dtype=torch.float64)[None]

    def _supergroups(self) -> tuple[LinearGroup, ...]:
        return (GL(self.n),)

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        scale = torch.linalg.matrix_norm(g) / self.n**0.5
        return (scale > 0) & (orthogonality_defect(g / scale[..., None, None]) <= tol)
