"""The orthogonal group."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups.linear_group import LinearGroup, orthogonality_defect
from equigeo.groups.similarity import Similarity


class O(LinearGroup):  # noqa: E742 - the name of the group
    """Rotations and reflections of ``n``-dimensional space: ``g^T g = 1``.

    Parameters
    ----------
    n : int
        Dimension of space, at least 2.

    Examples
    --------
    >>> g = O(3).haar(5, generator=torch.Generator().manual_seed(0))
    >>> bool(O(3).contains(g).all()), O(3) == O(3)
    (True, True)
    """

    is_connected = False

    @property
    def compact(self) -> O:
        """The group itself."""
        return self

    def haar(self, k: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Draw elements from the uniform (Haar) distribution.

        Parameters
        ----------
        k : int
            Number of elements.
        generator : torch.Generator, optional
            Source of randomness; torch's global one by default.

        Returns
        -------
        Tensor, (k, n, n), float64
            Independent elements, orthogonal to rounding.

        References
        ----------
        Mezzadri, "How to generate random matrices from the classical compact groups", 2007: the
        signs of the QR factors must be fixed for the result to be uniform.
        """
        gaussian = torch.randn(k, self.n, self.n, dtype=torch.float64, generator=generator)
        q, r = torch.linalg.qr(gaussian)
        return q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]

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
        return (Similarity(self.n),)

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return orthogonality_defect(g) <= tol
