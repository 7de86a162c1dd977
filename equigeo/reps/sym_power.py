"""Symmetric powers of representations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement, permutations

import torch
from torch import Tensor

from equigeo.reps._tensor_power import TensorPower, orbit


@dataclass(frozen=True)
class SymPower(TensorPower):
    """Symmetric tensors of ``power`` indices over ``rep``: quadratic forms, moments, stresses.

    The basis is orthonormal, in lexicographic order of sorted indices: for two indices in the
    plane ``E11, (E12 + E21) / sqrt 2, E22``.

    Parameters
    ----------
    rep : Representation
        A linear representation, such as vectors ``TensorRep(group)``.
    power : int
        Number of indices, at least 1.

    Raises
    ------
    TypeError
        If the action of ``rep`` is affine.
    ValueError
        If ``power`` is below 1.

    Examples
    --------
    >>> from equigeo.groups import GLPlus
    >>> from equigeo.reps import TensorRep
    >>> SymPower(TensorRep(GLPlus(3)), 2).dim
    6
    """

    def _basis(self) -> Tensor:
        return _symmetric(self.rep.dim, self.power)


@cache
def _symmetric(dim: int, power: int) -> Tensor:
    rows = [
        orbit([(order, 1.0) for order in permutations(indices)], dim)
        for indices in combinations_with_replacement(range(dim), power)
    ]
    return torch.stack(rows) if rows else torch.zeros(0, dim**power, dtype=torch.float64)
