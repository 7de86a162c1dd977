"""The trivial representation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.groups import Group
from equigeo.reps.representation import Representation, Summand


@dataclass(frozen=True)
class Trivial(Representation):
    """Features that no element changes, such as an invariant output.

    Examples
    --------
    >>> from equigeo.groups import O
    >>> Trivial(O(3), 5).is_trivial()
    True
    """

    group: Group
    dim: int  # at least 0

    def __post_init__(self) -> None:
        if self.dim < 0:
            raise ValueError(f"dim must not be negative, got {self.dim}")

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Expand the features, of any dtype, for every element; possibly a view."""
        self.group.check_shape(g)
        self.check_features(x)
        return x.expand(*torch.broadcast_shapes(g.shape[:-2], x.shape[:-1]), self.dim)

    def matrix(self, g: Tensor) -> Tensor:
        """Return identity matrices."""
        self.group.check_shape(g)
        identity = torch.eye(self.dim, dtype=g.dtype, device=g.device)
        return identity.expand(*g.shape[:-2], self.dim, self.dim)

    def algebra(self, x: Tensor) -> Tensor:
        """Return zero matrices."""
        self.group.check_shape(x)
        return x.new_zeros(*x.shape[:-2], self.dim, self.dim)

    def summands(self) -> tuple[Summand, ...]:
        """Return copies of one invariant."""
        positions = torch.arange(self.dim)[:, None]
        return (Summand(Trivial(self.group, 1), positions),) if self.dim else ()

    def is_trivial(self) -> bool:
        """Return True: every element acts as the identity."""
        return True

    def dual(self) -> Trivial:
        """Return the representation itself."""
        return self

    def restrict(self, subgroup: Group) -> Trivial:
        """Return the trivial representation of another group."""
        if not subgroup.maps_to(self.group):
            raise ValueError(f"{subgroup} has no canonical map to {self.group}")
        return Trivial(subgroup, self.dim)
