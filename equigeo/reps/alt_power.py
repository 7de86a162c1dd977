"""Alternating powers of representations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations

import torch
from torch import Tensor

from equigeo.reps._tensor_power import TensorPower, orbit


@dataclass(frozen=True)
class AltPower(TensorPower):
    """Antisymmetric tensors of ``power`` indices over ``rep``: areas, volumes, cross products.

    The basis is orthonormal, in lexicographic order of sorted indices, but for two indices in
    three dimensions in the order of cross products: ``e2 ^ e3, e3 ^ e1, e1 ^ e2``. The matrices
    hold the minors of those of ``rep``.

    Parameters
    ----------
    rep : Representation
        A linear representation, such as vectors ``TensorRep(group)``.
    power : int
        Number of indices, at least 1; above ``rep.dim`` nothing is left.

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
    >>> import torch
    >>> AltPower(TensorRep(GLPlus(3)), 3).matrix(2 * torch.eye(3)).round()
    tensor([[8.]])
    """

    def _basis(self) -> Tensor:
        return _alternating(self.rep.dim, self.power)


@cache
def _alternating(dim: int, power: int) -> Tensor:
    chosen = list(combinations(range(dim), power))
    if (dim, power) == (3, 2):
        chosen = [(1, 2), (2, 0), (0, 1)]
    rows = [
        orbit([(tuple(indices[i] for i in order), _sign(order)) for order in orders], dim)
        for indices in chosen
        for orders in [list(permutations(range(power)))]
    ]
    return torch.stack(rows) if rows else torch.zeros(0, dim**power, dtype=torch.float64)


def _sign(order: tuple[int, ...]) -> float:
    swaps = sum(a > b for a, b in combinations(order, 2))
    return -1.0 if swaps % 2 else 1.0
