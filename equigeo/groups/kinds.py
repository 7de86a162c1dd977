"""Linear groups by name."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups.inclusions import CompactFactor, Stretches
from equigeo.groups.linear_group import LinearGroup
from equigeo.groups.matrices.check_matrices import orthogonality_defect, scale_of, unit_rows


class _CompactGroup(LinearGroup):
    stretches = Stretches.NONE

    def haar(self, k: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Draw elements from the uniform (Haar) distribution, (k, n, n), float64."""
        return self.sample(k, generator=generator)


class O(_CompactGroup):  # noqa: E742 - the name of the group
    """Rotations and reflections of ``n``-dimensional space: ``g^T g = 1``.

    Examples
    --------
    >>> g = O(3).haar(5, generator=torch.Generator().manual_seed(0))
    >>> bool(O(3).contains(g).all()), O(3) == O(3)
    (True, True)
    """

    compact_factor = CompactFactor.ORTHOGONAL

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return orthogonality_defect(g) <= tol


class SO(_CompactGroup):
    """Rotations of ``n``-dimensional space: ``g^T g = 1`` and ``det g = 1``.

    Examples
    --------
    >>> SO(3).generators()[2].tolist()  # turns x towards y
    [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """

    compact_factor = CompactFactor.ROTATIONS

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return (orthogonality_defect(g) <= tol) & (torch.linalg.det(g) > 0)


class SL(LinearGroup):
    """Matrices that preserve volume and orientation: ``det g = 1``.

    Examples
    --------
    >>> SL(2).contains(torch.tensor([[1.0, 3.0], [0.0, 1.0]]))
    tensor(True)
    """

    stretches = Stretches.TRACELESS
    compact_factor = CompactFactor.ROTATIONS

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return (torch.linalg.det(g) - 1).abs() <= tol


class GL(LinearGroup):
    """All invertible matrices, including reflections.

    Examples
    --------
    >>> GL(2).contains(torch.tensor([[0.0, 2.0], [1.0, 0.0]]))
    tensor(True)
    """

    stretches = Stretches.SYMMETRIC
    compact_factor = CompactFactor.ORTHOGONAL

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return torch.linalg.det(unit_rows(g)) != 0


class GLPlus(LinearGroup):
    """Matrices of positive determinant, the component of the identity of GL(n).

    Examples
    --------
    >>> GLPlus(3).generators().shape
    torch.Size([9, 3, 3])
    """

    stretches = Stretches.SYMMETRIC
    compact_factor = CompactFactor.ROTATIONS

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return torch.linalg.det(unit_rows(g)) > 0


class Scaling(LinearGroup):
    """Positive multiples of the identity; the coordinate is the logarithm of the factor.

    Examples
    --------
    >>> Scaling(2).exp(torch.eye(2) * 0.0).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    stretches = Stretches.UNIFORM
    compact_factor = CompactFactor.TRIVIAL

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        scale = g.diagonal(dim1=-2, dim2=-1).mean(-1)
        identity = torch.eye(self.n, dtype=g.dtype, device=g.device)
        defect = (g - scale[..., None, None] * identity).abs().amax((-2, -1))
        return (scale > 0) & (defect <= tol * scale)


class Similarity(LinearGroup):
    """Positive multiples of orthogonal matrices; ``Affine(Similarity(n))`` adds translations.

    Examples
    --------
    >>> Similarity(2).contains(torch.tensor([[0.0, 3.0], [3.0, 0.0]]))
    tensor(True)
    """

    stretches = Stretches.UNIFORM
    compact_factor = CompactFactor.ORTHOGONAL

    def inverse(self, g: Tensor) -> Tensor:
        """Return the transpose over the squared factor."""
        self.check_shape(g)
        # g^T g = s^2 1, so that the squares of all n^2 entries sum to n s^2
        scale = scale_of(g)
        unit = g / scale
        return unit.mT / unit.square().mean((-2, -1), keepdim=True) / self.n / scale

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        unit = g / scale_of(g)
        scale = torch.linalg.matrix_norm(unit) / self.n**0.5  # the norm of s R is s sqrt n
        return (scale > 0) & (orthogonality_defect(unit / scale[..., None, None]) <= tol)
