"""Wigner symbols, independent of those of the package."""

from functools import cache

from sympy.physics import wigner


def allowed(*triple: int) -> bool:
    l1, l2, l3 = triple
    return abs(l1 - l2) <= l3 <= l1 + l2


@cache
def wigner_3j_symbol(*numbers: int) -> float:
    return float(wigner.wigner_3j(*numbers))


@cache
def wigner_6j_symbol(*numbers: int) -> float:
    return float(wigner.wigner_6j(*numbers))


def wigner_9j_symbol(*rows: tuple[int, int, int]) -> float:
    return float(wigner.wigner_9j(*(number for row in rows for number in row)))
