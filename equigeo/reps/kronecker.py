"""Tensor products of representations."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from equigeo.groups import Group
from equigeo.reps.representation import Representation, Summand, require_linear_parts


@dataclass(frozen=True)
class Kronecker(Representation):
    """All products of one feature of each factor, the first factor slowest."""

    factors: tuple[Representation, ...]
    group: Group = field(init=False, repr=False, compare=False)
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_linear_parts("tensor product", self.factors)
        flat: list[Representation] = []
        for factor in self.factors:
            flat.extend(factor.factors if isinstance(factor, Kronecker) else (factor,))
        object.__setattr__(self, "factors", tuple(flat))
        object.__setattr__(self, "group", flat[0].group)
        object.__setattr__(self, "dim", math.prod(factor.dim for factor in self.factors))

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Apply elements to features, one factor after the other."""
        self.check_features(x)
        g = g[..., None, None, :, :]
        dims = [factor.dim for factor in self.factors]
        for k, factor in enumerate(self.factors):
            # axes of slower factors, this one, faster ones; it goes last to be acted on
            x = x.unflatten(-1, (math.prod(dims[:k]), dims[k], math.prod(dims[k + 1 :])))
            x = factor.act(g, x.mT).mT.flatten(-3)
        return x

    def matrix(self, g: Tensor) -> Tensor:
        """Return Kronecker products of the matrices of the factors."""
        out = self.factors[0].matrix(g)
        for factor in self.factors[1:]:
            out = batched_kronecker(out, factor.matrix(g))
        return out

    def algebra(self, x: Tensor) -> Tensor:
        """Return the derivative by the product rule: ``A (x) 1 + 1 (x) B`` for two factors."""
        out = self.factors[0].algebra(x)
        for factor in self.factors[1:]:
            left = torch.eye(out.shape[-1], dtype=out.dtype, device=out.device)
            right = torch.eye(factor.dim, dtype=out.dtype, device=out.device)
            out = batched_kronecker(out, right) + batched_kronecker(left, factor.algebra(x))
        return out

    def summands(self) -> tuple[Summand, ...]:
        """Return the products of the summands of the factors; copies of the first are slowest."""
        first, *others = self.factors
        found = first.summands()
        for factor in others:
            found = tuple(
                Summand(a.rep @ b.rep, _outer_positions(a.positions, b.positions, factor.dim))
                for a in found
                for b in factor.summands()
            )
        return found

    def dual(self) -> Representation:
        """Return the tensor product of the duals."""
        return Kronecker(tuple(factor.dual() for factor in self.factors))

    def restrict(self, subgroup: Group) -> Representation:
        """Restrict every factor."""
        return Kronecker(tuple(factor.restrict(subgroup) for factor in self.factors))


def _outer_positions(a: Tensor, b: Tensor, dim: int) -> Tensor:
    """Return positions (copies, d) of products of components; ``dim`` is that of the second."""
    pairs = dim * a[:, None, :, None] + b[None, :, None, :]
    return pairs.flatten(2).flatten(0, 1)


def batched_kronecker(
    a: Tensor,  # (..., m, m)
    b: Tensor,  # (..., n, n)
) -> Tensor:  # (..., m n, m n)
    """Return the Kronecker product over the last two axes, with blocks ``a_ij b``."""
    product = a[..., :, None, :, None] * b[..., None, :, None, :]
    return product.flatten(-2).flatten(-3, -2)
