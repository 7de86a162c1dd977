"""The special orthogonal group."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups.linear_group import LinearGroup, orthogonality_defect
from equigeo.groups.o import O
from equigeo.groups.sl import SL


class SO(LinearGroup):
    """Rotations of ``n``-dimensional space: ``g^T g = 1`` and ``det g = 1``.

    Parameters
    ----------
    n : int
        Dimension of space, at least 2.

    Examples
    --------
    >>> SO(3).generators()[2].tolist()  # turns x towards y
    [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """

    is_connected = True

    @property
    def compact(self) -> SO:
        """The group itself."""
        return self

    def haar(self, k: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Draw rotations from the uniform (Haar) distribution.

        Parameters
        ----------
        k : int
            Number of elements.
        generator : torch.Generator, optional
            Source of randomness; torch's global one by default.

        Returns
        -------
        Tensor, (k, n, n), float64
            Independent rotations, orthogonal to rounding.
        """
        g = O(self.n).haar(k, generator=generator)
        sign = torch.linalg.det(g).sign()[:, None]
        return torch.cat([g[..., :1] * sign[..., None], g[..., 1:]], dim=-1)

    def inverse(self, g: Tensor) -> Tensor:
        """Transpose, exactly.

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
        return g.mT

    def _positive_basis(self) -> Tensor:
        return torch.zeros(0, self.n, self.n, dtype=torch.float64)

    def _supergroups(self) -> tuple[LinearGroup, ...]:
        return (O(self.n), SL(self.n))

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return (orthogonality_defect(g) <= tol) & (torch.linalg.det(g) > 0)
