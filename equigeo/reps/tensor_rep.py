"""Tensors with upper and lower indices, and densities."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from equigeo.groups import Group
from equigeo.reps.kronecker import batched_kronecker
from equigeo.reps.representation import Representation


@dataclass(frozen=True)
class TensorRep(Representation):
    r"""Tensors with ``up`` vector indices, ``down`` covector indices and a density weight.

    .. math:: \rho(g) = |\det g|^w \; g^{\otimes p} \otimes (g^{-T})^{\otimes q}

    The first index is slowest. Vectors are ``up=1``, covectors (gradients) ``down=1``, linear maps
    ``up=1, down=1``, mass densities ``density=-1``. An affine group acts through its linear part.

    Parameters
    ----------
    group : Group
        Any group of matrices.
    up, down : int
        Numbers p and q of indices, not negative; the default is a vector.
    density : float
        Weight w.

    Examples
    --------
    >>> from equigeo.groups import GLPlus
    >>> import torch
    >>> stretch = torch.diag(torch.tensor([2.0, 1.0]))
    >>> TensorRep(GLPlus(2), up=1).act(stretch, torch.ones(2))
    tensor([2., 1.])
    >>> TensorRep(GLPlus(2), up=0, density=-1.0).act(stretch, torch.ones(1))
    tensor([0.5000])
    """

    group: Group
    up: int = 1
    down: int = 0
    density: float = 0.0
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.up < 0 or self.down < 0:
            raise ValueError(f"up and down must not be negative, got {self.up} and {self.down}")
        if self.group.linear_group.size != self.group.n:
            raise ValueError(
                f"{self.group} has elements of size {self.group.size} in {self.group.n} "
                "dimensions: its linear_group must define the action on vectors"
            )
        object.__setattr__(self, "density", float(self.density))
        object.__setattr__(self, "dim", int(self.group.n ** (self.up + self.down)))

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Apply elements to tensors, index by index."""
        self.check_features(x)
        weight, factors = self._factors(g.double())
        n = self.group.n
        for k, factor in enumerate(factors):
            # axes of slower indices, of this one, of faster ones
            x = x.unflatten(-1, (n**k, n, self.dim // n ** (k + 1)))
            x = (factor.to(x.dtype)[..., None, :, :] @ x).flatten(-3)
        return weight[..., None].to(x.dtype) * x

    def matrix(self, g: Tensor) -> Tensor:
        """Return Kronecker products of ``g`` and its transposed inverse, times the density."""
        weight, factors = self._factors(g)
        out = weight[..., None, None]
        for factor in factors:
            out = batched_kronecker(out, factor)
        return out

    def algebra(self, x: Tensor) -> Tensor:
        """Return the derivative of :meth:`matrix`: a sum over indices plus weight times trace."""
        x = self.group.convert_algebra(x, self.group.linear_group)
        out = self.density * x.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        identity = torch.eye(self.group.n, dtype=x.dtype, device=x.device)
        for term in [x] * self.up + [-x.mT] * self.down:
            before = torch.eye(out.shape[-1], dtype=x.dtype, device=x.device)
            out = batched_kronecker(out, identity) + batched_kronecker(before, term)
        return out

    def dual(self) -> Representation:
        """Return the action on linear functions: indices swap, and the weight changes sign."""
        if self.up and self.down:  # the order of indices would change: no TensorRep
            return super().dual()
        return TensorRep(self.group, self.down, self.up, -self.density)

    def restrict(self, subgroup: Group) -> TensorRep:
        """Return the tensors of a smaller group."""
        if not subgroup.maps_to(self.group):
            raise ValueError(f"{subgroup} has no canonical map to {self.group}")
        return TensorRep(subgroup, self.up, self.down, self.density)

    def _factors(self, g: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the density factor (...) and the matrix (..., n, n) of every index."""
        linear = self.group.linear_group
        g = self.group.convert(g, linear)
        weight = g.new_ones(g.shape[:-2])
        if self.density:  # the absolute value: a mirror image has the same mass
            weight = torch.linalg.det(g).abs() ** self.density
        lower = [linear.inverse(g).mT] * self.down if self.down else []
        return weight, [g] * self.up + lower
