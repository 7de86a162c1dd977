"""Pairs of representations, and how many independent equivariant maps the theory knows.

Invariants of tensors of O(n) and SO(n) are products of the metric and of the volume form (Weyl,
"The Classical Groups", 1939); those of SL(n) and GL(n) permute indices, or are
determinants.
"""

from collections import Counter
from itertools import combinations
from typing import NamedTuple

from equigeo.groups import GL, SL, SO, Affine, GLPlus, Group, O
from equigeo.reps import AltPower, Irreps, PlanarIrrep, Representation, SymPower, TensorRep, Trivial

T = TensorRep


class Case(NamedTuple):
    rep_in: Representation
    rep_out: Representation
    maps: int


def _tensors(group: Group) -> list[Representation]:
    """Tensors without lower indices, of rank 0 to 4."""
    return [T(group, up=k) for k in range(5)]


def _cases() -> list[Case]:
    o3, so3, o2, so2 = (_tensors(group) for group in (O(3), SO(3), O(2), SO(2)))
    sl2, gl2, gl3 = (_tensors(group) for group in (SL(2), GLPlus(2), GLPlus(3)))
    return [
        # 1, 3, 15 and 105 - 14 pairings of 2, 4, 6 and 8 indices in space; Schur's lemma for irreps
        Case(Irreps("2x0e+1o"), Irreps("0e+3x1o"), 5),
        Case(o3[1], o3[1], 1),
        Case(o3[2], o3[2], 3),
        Case(o3[2], o3[1], 0),
        Case(o3[3], o3[1], 3),
        Case(o3[3], o3[3], 15),
        Case(o3[4], o3[4], 91),
        Case(Irreps("1e"), AltPower(o3[1], 2), 1),
        Case(SymPower(o3[1], 2), Irreps("0e+2e"), 2),
        Case(o3[2], Irreps("1e+1o"), 1),
        Case(o3[4], Trivial(O(3), 1), 3),
        # so in all dimensions, but for relations between large ranks; the volume form of SO(4) has
        # four indices
        Case(T(O(4), 2), T(O(4), 2), 3),
        Case(T(SO(4), 2), T(SO(4), 2), 4),
        # Riordan numbers 1, 0, 1, 1, 3, 6, 15: the volume form pairs three indices
        Case(so3[2], so3[1], 1),
        Case(so3[3], so3[2], 6),
        Case(Irreps("1o+1e").restrict(SO(3)), so3[1], 2),
        # central binomial coefficients: as many turns one way as the other
        Case(so2[1], so2[1], 2),
        Case(so2[2], so2[2], 6),
        Case(so2[3], so2[3], 20),
        Case(so2[1], so2[2], 0),
        Case(PlanarIrrep(SO(2), 2), so2[2], 2),
        Case(PlanarIrrep(SO(2), 3), PlanarIrrep(SO(2), 2), 0),
        Case(o2[1], o2[1], 1),
        Case(o2[2], o2[2], 3),
        Case(PlanarIrrep(O(2), 0, -1), AltPower(o2[1], 2), 1),
        # Catalan numbers: pairings by areas that do not cross
        Case(sl2[1], sl2[1], 1),
        Case(sl2[1], T(SL(2), up=0, down=1), 1),
        Case(sl2[2], sl2[2], 2),
        Case(sl2[2], sl2[1], 0),
        Case(sl2[3], sl2[3], 5),
        Case(sl2[4], T(SL(2), down=1), 5),
        Case(SymPower(sl2[1], 3), SymPower(T(SL(2), 0, 1), 3), 1),
        Case(AltPower(sl2[1], 2), Trivial(SL(2), 2), 2),
        # permutations without a decreasing run longer than n; determinants by densities
        Case(gl2[1], gl2[1], 1),
        Case(gl2[1], T(GLPlus(2), 0, 1), 0),
        Case(gl2[1], T(GLPlus(2), 0, 1, density=1.0), 1),
        Case(gl2[3], gl2[3], 5),
        Case(T(GLPlus(2), 2, 1), gl2[1], 2),
        Case(T(GLPlus(2), 0, 0, 0.5), T(GLPlus(2), 0, 0, 0.25), 0),
        Case(T(GL(2), 1), T(GL(2), 0, 1, density=1.0), 0),
        Case(gl3[1], gl3[1], 1),
        Case(gl3[2], gl3[2], 2),
        Case(gl3[3], gl3[3], 6),
        Case(gl3[3], T(GLPlus(3), 0, 0, density=1.0), 1),
        Case(AltPower(gl3[1], 2), T(GLPlus(3), 0, 1, density=1.0), 1),
        Case(T(GLPlus(3), 1, 1), T(GLPlus(3), 1, 1), 2),
        Case(T(GLPlus(4), 2), T(GLPlus(4), 2), 2),
        # translations do not move tensors
        Case(T(Affine(GLPlus(2))), T(Affine(GLPlus(2))), 1),
        Case(T(Affine(O(3)), 2), T(Affine(O(3)), 2), 3),
        Case(T(Affine(SL(2))), T(Affine(SL(2)), 0, 1), 1),
        Case(T(Affine(SO(2))), T(Affine(SO(2))), 2),
    ]


CASES = _cases()


def maps_of_tensors(rep_in: TensorRep, rep_out: TensorRep) -> int:
    """Dimension for tensors of SL(n), GL+(n) and GL(n), by Weyl's integration formula.

    Polynomial representations restrict to the unitary group without losing a map; there the
    dimension is the constant term of the characters times the product of ``1 - x_i / x_j``.
    """
    group, n = rep_in.group, rep_in.group.n
    total: Counter[tuple[int, ...]] = Counter({(0,) * n: 1})
    for sign, power in ((1, rep_out.up + rep_in.down), (-1, rep_out.down + rep_in.up)):
        for _ in range(power):
            total = _times(total, [(_unit(n, {i: sign}), 1) for i in range(n)])
    for i, j in combinations(range(n), 2):
        total = _times(total, [((0,) * n, 1), (_unit(n, {i: 1, j: -1}), -1)])
    # exponents that are all k are the k-th power of the determinant, which is 1 on SL(n)
    powers = {exponent[0]: value for exponent, value in total.items() if len({*exponent}) == 1}
    if isinstance(group, SL):
        return sum(powers.values())
    weight = rep_in.density - rep_out.density
    if weight != round(weight) or (isinstance(group, GL) and weight % 2):
        return 0  # the density has the absolute value of the determinant
    return powers.get(round(weight), 0)


def _unit(n: int, entries: dict[int, int]) -> tuple[int, ...]:
    return tuple(entries.get(i, 0) for i in range(n))


def _times(
    a: Counter[tuple[int, ...]], terms: list[tuple[tuple[int, ...], int]]
) -> Counter[tuple[int, ...]]:
    """Product of two polynomials, by exponents."""
    out: Counter[tuple[int, ...]] = Counter()
    for exponent, value in a.items():
        for other, factor in terms:
            out[tuple(x + y for x, y in zip(exponent, other, strict=True))] += value * factor
    return out
