"""The group of uniform scalings."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups.gl_plus import GLPlus
from equigeo.groups.linear_group import LinearGroup
from equigeo.groups.similarity import Similarity


class Scaling(LinearGroup):
    """Positive multiples of the identity; the coordinate is the logarithm of the factor.

    Parameters
    ----------
    n : int
        Dimension of space, at least 2.

    Examples
    --------
    >>> Scaling(2).exp(torch.eye(2) * 0.0).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    @property
    def compact(self) -> None:
        """None: the only compact subgroup is trivial."""
        return None

    def _positive_basis(self) -> Tensor:
        return torch.eye(self.n, dtype=torch.float64)[None]

    def _supergroups(self) -> tuple[LinearGroup, ...]:
        return (Similarity(self.n), GLPlus(self.n))

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        scale = g.diagonal(dim1=-2, dim2=-1).mean(-1)
        identity = torch.eye(self.n, dtype=g.dtype, device=g.device)
        defect = (g - scale[..., None, None] * identity).abs().amax((-2, -1))
        return (scale > 0) & (defect <= tol * scale)
