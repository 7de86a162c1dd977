"""Strengths of paths between functions on the sphere, and 6j and 9j symbols."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

from equigeo.reps.wigner import wigner_3j_table
from equigeo.tensor_products.sphere.legendre import Basis, basis_scale


def gaunt_coupling(l1: int, l2: int, l3: int, basis: Basis = "component") -> float:
    """Return the strength of a path of :class:`GauntTensorProduct`, zero if there is none."""
    # Coefficients scale inversely to basis functions: inputs multiply, the output divides.
    scale1, scale2, scale3 = (basis_scale("basis", basis, l) for l in (l1, l2, l3))
    # The real tensor at orders (0, 0, 0) is the 3j symbol, up to a sign.
    middle = abs(wigner_3j_table(l1, l2, l3)[l1, l2, l3].item())
    return middle * math.sqrt((2 * l1 + 1) * (2 * l2 + 1) * (2 * l3 + 1)) * scale1 * scale2 / scale3


def curl_coupling(l1: int, l2: int, l3: int, basis: Basis = "component") -> float:
    """Return the strength of a path of :class:`CurlTensorProduct`, zero if there is none."""
    scale1, scale2, scale3 = (basis_scale("basis", basis, l) for l in (l1, l2, l3))
    table = wigner_3j_table(l1, l2, l3)
    if (l1 + l2 + l3) % 2 == 0 or min(l1, l2) == 0:
        return 0.0
    # For an odd sum the real tensor at the orders (-1, 1, 0) is the symbol, up to a sign.
    symbol = abs(table[l1 - 1, l2 + 1, l3].item())
    # The surface gradient of a harmonic has the norm sqrt(l (l + 1)).
    lengths = l1 * (l1 + 1) * l2 * (l2 + 1) * (2 * l1 + 1) * (2 * l2 + 1) * (2 * l3 + 1)
    return symbol * math.sqrt(lengths) * scale1 * scale2 / scale3


Row = tuple[int, int, int]


@cache
def wigner_6j(l1: int, l2: int, l3: int, l4: int, l5: int, l6: int) -> float:
    """Return the 6j symbol of two rows of degrees, rounded once and exactly zero if it vanishes."""
    # Varshalovich, Moskalev, Khersonskii, "Quantum Theory of Angular Momentum", 1988, 9.2.1.
    # Four triangles of the tetrahedron; their coefficients stand under one root.
    triads = ((l1, l2, l3), (l1, l5, l6), (l4, l2, l6), (l4, l5, l3))
    square = math.prod((triangle_coefficient(*triad) for triad in triads), start=Fraction(1))
    return times_root(racah_sum(l1, l2, l3, l4, l5, l6), square) if square else 0.0


@cache
def wigner_9j(first: Row, second: Row, third: Row) -> float:
    """Return the 9j symbol of three rows of degrees, rounded once."""
    # Varshalovich, Moskalev, Khersonskii, "Quantum Theory of Angular Momentum", 1988, 10.2.4.
    columns = zip(first, second, third, strict=True)
    triads = (first, second, third, *columns)
    fixed = math.prod((triangle_coefficient(*triad) for triad in triads), start=Fraction(1))
    if not fixed:
        return 0.0
    (a, b, c), (d, e, f), (g, h, i) = first, second, third
    # Each triangle with the summed degree x belongs to two of the three 6j: no root is left.
    total = Fraction(0)
    # Sum over x of three 6j symbols, each with the sign (-1)^(2x) = 1 for integer degrees.
    for x in range(max(abs(a - i), abs(d - h), abs(b - f)), min(a + i, d + h, b + f) + 1):
        roots = math.prod(triangle_coefficient(*t, x) for t in ((a, i), (d, h), (b, f)))
        sums = racah_sum(a, d, g, h, i, x) * racah_sum(b, e, h, d, x, f)
        total += (2 * x + 1) * roots * sums * racah_sum(c, f, i, x, a, b)
    return times_root(total, fixed)


def triangle_coefficient(a: int, b: int, c: int) -> Fraction:
    """Return the squared triangle coefficient of three degrees, zero outside the triangle rule."""
    sides = (a + b - c, a - b + c, b + c - a)
    if min(sides) < 0:
        return Fraction(0)
    return Fraction(math.prod(map(math.factorial, sides)), math.factorial(a + b + c + 1))


def racah_sum(l1: int, l2: int, l3: int, l4: int, l5: int, l6: int) -> int:
    """Return the integer factor of a 6j symbol, without its triangle coefficients."""
    # Racah's formula: alternating, so that floating-point terms would cancel; integers do not.
    triads = (l1 + l2 + l3, l1 + l5 + l6, l4 + l2 + l6, l4 + l5 + l3)
    quads = (l1 + l2 + l4 + l5, l2 + l3 + l5 + l6, l3 + l1 + l6 + l4)
    total = 0
    for k in range(max(triads), min(quads) + 1):
        below = math.prod(math.factorial(k - triad) for triad in triads)
        below *= math.prod(math.factorial(quad - k) for quad in quads)
        total += (-1) ** k * math.factorial(k + 1) // below  # k + 1 times a multinomial coefficient
    return total


def times_root(factor: int | Fraction, square: Fraction) -> float:
    """Return ``factor * sqrt(square)`` for exact numbers of any size."""
    # Squared first: numerator and denominator may exceed what a float holds, the quotient does not.
    root = math.sqrt(Fraction(factor) ** 2 * square)
    return -root if factor < 0 else root
