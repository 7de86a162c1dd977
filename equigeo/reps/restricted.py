"""Restrictions of representations to subgroups."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from equigeo.groups import Group
from equigeo.reps.representation import Representation, Summand, require_linear_parts


@dataclass(frozen=True)
class Restricted(Representation):
    """``rep`` restricted to a group that maps canonically to the group of ``rep``."""

    rep: Representation
    group: Group
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_linear_parts("restriction", (self.rep,))
        if not self.group.maps_to(self.rep.group):
            raise ValueError(
                f"{self.rep} cannot be restricted: {self.group} has no canonical map "
                f"to {self.rep.group}"
            )
        object.__setattr__(self, "dim", self.rep.dim)

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Apply elements to features through the larger group."""
        return self.rep.act(self.group.convert(g, self.rep.group), x)

    def matrix(self, g: Tensor) -> Tensor:
        """Return the matrices of ``rep`` at the images of ``g``."""
        return self.rep.matrix(self.group.convert(g, self.rep.group))

    def algebra(self, x: Tensor) -> Tensor:
        """Return the derivative of :meth:`matrix`: that of ``rep`` at the images of ``x``."""
        return self.rep.algebra(self.group.convert_algebra(x, self.rep.group))

    def summands(self) -> tuple[Summand, ...]:
        """Return the restrictions of the summands of ``rep``."""
        parts = self.rep.summands()
        return tuple(Summand(part.rep.restrict(self.group), part.positions) for part in parts)

    def dual(self) -> Representation:
        """Return the restriction of the dual."""
        return self.rep.dual().restrict(self.group)

    def restrict(self, subgroup: Group) -> Representation:
        """Restrict in one step."""
        if not subgroup.maps_to(self.group):
            raise ValueError(f"{subgroup} has no canonical map to {self.group}")
        return self.rep.restrict(subgroup)
