"""Wigner symbols, independent of those of the package."""

from fractions import Fraction
from functools import cache
from math import factorial, sqrt

import torch

from equigeo.reps import wigner_3j


def allowed(*triple: int) -> bool:
    l1, l2, l3 = triple
    return abs(l1 - l2) <= l3 <= l1 + l2


def _delta(a: int, b: int, c: int) -> Fraction:
    return Fraction(
        factorial(a + b - c) * factorial(a - b + c) * factorial(b + c - a), factorial(a + b + c + 1)
    )


@cache
def wigner_3j_symbol(l1: int, l2: int, l3: int, m1: int, m2: int, m3: int) -> float:
    """By the formula of Racah."""
    if m1 + m2 + m3 or not allowed(l1, l2, l3):
        return 0.0
    total = Fraction(0)
    for k in range(l1 + l2 + l3 + 1):
        parts = (k, l3 - l2 + k + m1, l3 - l1 + k - m2, l1 + l2 - l3 - k, l1 - k - m1, l2 - k + m2)
        if min(parts) >= 0:
            product = 1
            for part in parts:
                product *= factorial(part)
            total += Fraction((-1) ** k, product)
    square = _delta(l1, l2, l3) * total * total
    for l, m in ((l1, m1), (l2, m2), (l3, m3)):
        square *= factorial(l + m) * factorial(l - m)
    sign = (-1) ** (l1 - l2 - m3) * (1 if total >= 0 else -1)
    return sign * sqrt(square)


@cache
def wigner_6j_symbol(a: int, b: int, c: int, d: int, e: int, f: int) -> float:
    """By the formula of Racah."""
    triads = ((a, b, c), (a, e, f), (d, b, f), (d, e, c))
    if not all(allowed(*triad) for triad in triads):
        return 0.0
    total = Fraction(0)
    squares = (a + b + d + e, b + c + e + f, c + a + f + d)
    for k in range(max(map(sum, triads)), min(squares) + 1):
        below = 1
        for triad in triads:
            below *= factorial(k - sum(triad))
        for square in squares:
            below *= factorial(square - k)
        total += Fraction((-1) ** k * factorial(k + 1), below)
    scale = Fraction(1)
    for triad in triads:
        scale *= _delta(*triad)
    return float(total) * sqrt(scale)


def wigner_9j_symbol(*rows: tuple[int, int, int]) -> float:
    """As a closed network of six coupling tensors."""
    first, second, third, left, middle, right = (
        wigner_3j(*triad) for triad in (*rows, *zip(*rows, strict=True))
    )
    network = torch.einsum("abc,adg->bcdg", first, left)
    network = torch.einsum("bcdg,beh->cdgeh", network, middle)
    network = torch.einsum("cdgeh,def->cghf", network, second)
    return torch.einsum("cghf,ghi,cfi->", network, third, right).item()
