"""Factors of linear groups ``exp(V) K``, and inclusions between groups."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Stretches(Enum):
    """The space ``V`` of symmetric matrices: logarithms of the stretches of a group."""

    NONE = "none"
    UNIFORM = "multiples of the identity"
    TRACELESS = "trace zero"
    SYMMETRIC = "all"

    def lies_in(self, other: Stretches) -> bool:
        """Return whether this space is a subspace of another one."""
        # multiples of the identity and traceless matrices share nothing but zero
        return self == other or self is Stretches.NONE or other is Stretches.SYMMETRIC


class CompactFactor(Enum):
    """The maximal compact subgroup ``K``; the value is its name."""

    TRIVIAL = "1"
    ROTATIONS = "SO"
    ORTHOGONAL = "O"

    def lies_in(self, other: CompactFactor) -> bool:
        """Return whether this group is a subgroup of another one."""
        order = list(CompactFactor)  # a chain: each lies in the next
        return order.index(self) <= order.index(other)


@dataclass(frozen=True)
class PolarForm:
    """Both factors of a linear group, which determine it: polar decompositions are unique."""

    n: int
    stretches: Stretches
    compact_factor: CompactFactor

    def lies_in(self, other: PolarForm) -> bool:
        """Return whether the group is a subgroup of another one."""
        return (
            self.n == other.n
            and self.stretches.lies_in(other.stretches)
            and self.compact_factor.lies_in(other.compact_factor)
        )
