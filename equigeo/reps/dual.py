"""Dual representations."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from equigeo.groups import Group
from equigeo.reps.representation import Representation, Summand, require_linear_parts


@dataclass(frozen=True)
class Dual(Representation):
    """The action ``matrix(g^-1)^T`` on linear functions of the features of ``rep``."""

    rep: Representation
    group: Group = field(init=False, repr=False, compare=False)
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_linear_parts("dual", (self.rep,))
        object.__setattr__(self, "group", self.rep.group)
        object.__setattr__(self, "dim", self.rep.dim)

    def matrix(self, g: Tensor) -> Tensor:
        """Return the transposed inverses of the matrices of ``rep``."""
        return self.rep.inverse_matrix(g).mT

    def inverse_matrix(self, g: Tensor) -> Tensor:
        """Return the transposed matrices of ``rep``, without an inverse."""
        return self.rep.matrix(g).mT

    def algebra(self, x: Tensor) -> Tensor:
        """Return the derivative of :meth:`matrix` at the identity: ``-rep.algebra(x)^T``."""
        # derivative of (exp(t x)^-1)^T at t = 0
        return -self.rep.algebra(x).mT

    def summands(self) -> tuple[Summand, ...]:
        """Return the duals of the summands of ``rep``."""
        return tuple(Summand(part.rep.dual(), part.positions) for part in self.rep.summands())

    def dual(self) -> Representation:
        """Return the representation itself: finite dimensions are reflexive."""
        return self.rep

    def restrict(self, subgroup: Group) -> Representation:
        """Return the dual of the restriction."""
        return self.rep.restrict(subgroup).dual()
