"""Which monomials some polynomials need, and how to make each from one of a degree less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.tensor_products._symmetric_basis import monomials


@dataclass(frozen=True, eq=False)
class Rung:
    """The monomials of one degree that are needed.

    Parameters
    ----------
    rest : Tensor, (monomials,), int64
        For each the place, on the rung below, of what remains without its last variable.
    last : Tensor, (monomials,), int64
        The last variable.
    table : Tensor, (polynomials, monomials), float64
        Coefficients.
    """

    rest: Tensor
    last: Tensor
    table: Tensor


def monomial_ladder(dim: int, tables: Sequence[Tensor]) -> tuple[Rung, ...]:
    """Drop the monomials that no polynomial of any degree is built on.

    Parameters
    ----------
    dim : int
        Number of variables.
    tables : sequence of Tensor, (polynomials, all monomials), float64
        Coefficients of polynomials of degree 1, 2 and so on.

    Returns
    -------
    tuple of Rung
        One for each degree.

    Examples
    --------
    >>> cubes = torch.eye(4, dtype=torch.float64)[[0]]  # x^3 of two variables
    >>> rungs = monomial_ladder(2, [torch.zeros(0, 2), torch.zeros(0, 3), cubes])
    >>> [(rung.rest.tolist(), rung.last.tolist()) for rung in rungs]
    [([0], [0]), ([0], [0]), ([0], [0])]
    """
    needed: list[list[tuple[int, ...]]] = []
    above: set[tuple[int, ...]] = set()
    for degree in range(len(tables), 0, -1):
        used = tables[degree - 1].any(0).tolist()
        keep = [
            s
            for s, in_use in zip(monomials(dim, degree), used, strict=True)
            if in_use or s in above
        ]
        above = {s[:-1] for s in keep}
        needed.insert(0, keep)
    below: list[list[tuple[int, ...]]] = [[()], *needed]
    return tuple(
        _rung(dim, keep, rest, table)
        for keep, rest, table in zip(needed, below, tables, strict=False)
    )


def _rung(
    dim: int, keep: list[tuple[int, ...]], below: list[tuple[int, ...]], table: Tensor
) -> Rung:
    degree = len(keep[0]) if keep else 1
    place = {s: i for i, s in enumerate(monomials(dim, degree))}
    rest = {s: i for i, s in enumerate(below)}
    return Rung(
        rest=torch.tensor([rest[s[:-1]] for s in keep], dtype=torch.int64),
        last=torch.tensor([s[-1] for s in keep], dtype=torch.int64),
        table=table[:, [place[s] for s in keep]],
    )
