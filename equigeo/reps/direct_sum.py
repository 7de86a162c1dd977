"""Direct sums of representations."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from equigeo.groups import Group
from equigeo.reps.representation import Representation, Summand, require_linear_parts


@dataclass(frozen=True)
class DirectSum(Representation):
    """Features side by side on one axis; matrices are block diagonal, left to right."""

    parts: tuple[Representation, ...]
    group: Group = field(init=False, repr=False, compare=False)
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_linear_parts("direct sum", self.parts)
        # Nested sums are flattened, so that addition is associative.
        flat: list[Representation] = []
        for part in self.parts:
            for atom in part.parts if isinstance(part, DirectSum) else (part,):
                merged = flat[-1].merged(atom) if flat else None
                if merged is None:
                    flat.append(atom)
                else:
                    flat[-1] = merged
        object.__setattr__(self, "parts", tuple(flat))
        object.__setattr__(self, "group", flat[0].group)
        object.__setattr__(self, "dim", sum(part.dim for part in self.parts))

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Apply elements to features, part by part."""
        self.check_features(x)
        pieces = x.split([part.dim for part in self.parts], dim=-1)
        moved = [part.act(g, piece) for part, piece in zip(self.parts, pieces, strict=True)]
        return torch.cat(moved, dim=-1)

    def matrix(self, g: Tensor) -> Tensor:
        """Return block-diagonal matrices of the action."""
        return block_diagonal([part.matrix(g) for part in self.parts])

    def algebra(self, x: Tensor) -> Tensor:
        """Return the block-diagonal derivative of :meth:`matrix` at the identity."""
        return block_diagonal([part.algebra(x) for part in self.parts])

    def summands(self) -> tuple[Summand, ...]:
        """Return the summands of the parts; equal adjacent ones are merged as copies."""
        found: list[Summand] = []
        start = 0
        for part in self.parts:
            for rep, positions in part.summands():
                positions = positions + start
                if found and found[-1].rep == rep:
                    positions = torch.cat([found.pop().positions, positions])
                found.append(Summand(rep, positions))
            start += part.dim
        return tuple(found)

    def is_orthogonal(self) -> bool:
        """Return whether all parts are."""
        return all(part.is_orthogonal() for part in self.parts)

    def is_trivial(self) -> bool:
        """Return whether all parts are."""
        return all(part.is_trivial() for part in self.parts)

    def dual(self) -> Representation:
        """Return the direct sum of the duals."""
        return DirectSum(tuple(part.dual() for part in self.parts))

    def restrict(self, subgroup: Group) -> Representation:
        """Restrict every part."""
        return DirectSum(tuple(part.restrict(subgroup) for part in self.parts))


def copies_of(rep: Representation, copies: int) -> Representation:
    """Return the direct sum of copies of a linear representation."""
    if copies < 1:
        raise ValueError(f"there must be at least one copy of {rep}, got {copies}")
    require_linear_parts("direct sum", (rep,))
    return rep if copies == 1 else DirectSum((rep,) * copies)


def block_diagonal(
    blocks: list[Tensor],  # (..., d_i, d_i)
) -> Tensor:  # (..., sum d_i, sum d_i)
    """Return batched block-diagonal matrices."""
    dim = sum(block.shape[-1] for block in blocks)
    out = blocks[0].new_zeros(*blocks[0].shape[:-2], dim, dim)
    start = 0
    for block in blocks:
        stop = start + block.shape[-1]
        out[..., start:stop, start:stop] = block
        start = stop
    return out
