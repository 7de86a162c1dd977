"""Decomposition into irreducible representations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from equigeo._kept import kept
from equigeo.reps.equivariant_maps import equivariant_maps, maps_of_irrep, unique_basis
from equigeo.reps.irreps import Irreps
from equigeo.reps.multiplicities import is_complex, multiplicities
from equigeo.reps.representation import Representation, require_linear_parts
from equigeo.reps.restricted import Restricted
from equigeo.reps.trivial import Trivial

FEW = 256
"""Entries of maps up to which a null space on all of them is found fastest."""


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Irreducible summands of a representation and the change of basis to them."""

    rep: Representation
    irreps: Representation
    basis: Tensor  # rep.matrix(g) @ basis == basis @ irreps.matrix(g)


def decompose(rep: Representation) -> Decomposition:
    """Decompose a representation of O(2), SO(2), O(3) or SO(3) into irreducible ones.

    Other groups, affine actions and inconsistent matrices raise. See Serre, "Linear Representations
    of Finite Groups", 1977, chapter 2.

    Returns
    -------
    Decomposition
        With attributes ``rep``; ``irreps``, the direct sum: Irreps for O(3), their restriction for
        SO(3), frequencies in the plane, by degree or frequency, odd before even; and ``basis``
        (dim, dim), float64, whose columns are the new unit vectors: ``x = basis @ y`` for features
        ``y`` of ``irreps``. It is orthogonal if ``rep`` is, and the same on every machine up to
        rounding.

    Examples
    --------
    >>> from equigeo.groups import O
    >>> from equigeo.reps import TensorRep
    >>> found = decompose(TensorRep(O(3), up=2))
    >>> str(found.irreps)  # trace, antisymmetric part, traceless symmetric part
    '1x0e+1x1e+1x2e'
    >>> x = torch.eye(3, dtype=torch.float64).flatten()
    >>> (found.basis.mT @ x).round(decimals=6).nonzero().tolist()  # the identity is its trace alone
    [[0]]
    """
    require_linear_parts("decomposition", (rep,))
    found: dict[Representation, list[Tensor]] = {irrep: [] for irrep, _ in multiplicities(rep)}
    for atom, positions in rep.summands():
        for irrep, maps in irreducible_maps(atom):
            for place in positions:
                columns = maps.new_zeros(len(maps), rep.dim, irrep.dim)
                columns[:, place] = maps
                found[irrep].extend(columns)
    terms = [(irrep, len(maps)) for irrep, maps in found.items()]
    nothing = torch.zeros(rep.dim, 0, dtype=torch.float64)
    basis = torch.cat([nothing, *chain.from_iterable(found.values())], 1)
    return Decomposition(rep, _direct_sum(rep, terms), basis)


@kept
def irreducible_maps(
    rep: Representation,
) -> list[tuple[Representation, Tensor]]:  # (irrep, (copies, rep.dim, irrep.dim) float64)
    """Return maps from irreps with independent images that span all features; do not modify."""
    # All columns together are orthonormal if rep is orthogonal.
    found = []
    for irrep, count in multiplicities(rep):
        # Of few unknowns all conditions at once are faster.
        large = rep.group.n == 3 and irrep.dim * rep.dim > FEW
        maps = maps_of_irrep(irrep, rep) if large else equivariant_maps(irrep, rep)
        if is_complex(irrep):
            maps = _over_complex_numbers(irrep, maps)
        if len(maps) != count:
            raise ArithmeticError(
                f"{rep} holds {irrep} {count} times by its character, but {len(maps)} times by "
                "its generators: its matrix and its algebra do not belong together"
            )
        # by Schur's lemma A^T B is a multiple of one, of trace one or zero: columns of length one
        found.append((irrep, maps * irrep.dim**0.5))
    return found


def _over_complex_numbers(irrep: Representation, maps: Tensor) -> Tensor:
    """Return half of the maps; quarter turns of the irrep generate the others."""
    rate = irrep.generators()[0]
    quarter = rate / torch.linalg.matrix_norm(rate, 2)  # its square is -1
    chosen = []
    while len(maps):
        chosen.append(maps[0])
        used = torch.stack([maps[0], maps[0] @ quarter]).flatten(1)
        # the rest is orthogonal to both: the null space of their coefficients
        _, _, rows = torch.linalg.svd(used @ maps.flatten(1).mT, full_matrices=True)
        maps = unique_basis(torch.einsum("kd,dij->kij", rows[2:], maps))
    return torch.stack(chosen)


def _direct_sum(rep: Representation, terms: list[tuple[Representation, int]]) -> Representation:
    """Return the direct sum of copies of irreps, as Irreps for O(3) and SO(3)."""
    if not terms:
        return Trivial(rep.group, 0)
    if rep.group.n == 3:
        irreps = Irreps([(count, _degree_and_parity(irrep)) for irrep, count in terms])
        return irreps.restrict(rep.group)
    first, *others = [count * irrep for irrep, count in terms]
    return sum(others, first)


def _degree_and_parity(irrep: Representation) -> tuple[int, int]:
    """Return degree and parity of an irrep of O(3), or of a restriction to SO(3)."""
    whole: Any = irrep.rep if isinstance(irrep, Restricted) else irrep
    ((_, ir),) = Irreps(whole)
    return ir
