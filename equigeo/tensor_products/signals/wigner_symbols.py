"""Exact 6j and 9j symbols: recoupling coefficients, by integers and one root at the end."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

Row = tuple[int, int, int]


@cache
def wigner_6j(l1: int, l2: int, l3: int, l4: int, l5: int, l6: int) -> float:
    r"""Evaluate :math:`\{l_1\,l_2\,l_3;\ l_4\,l_5\,l_6\}`, rounded once.

    Parameters
    ----------
    l1, l2, l3, l4, l5, l6 : int
        Degrees: the upper and the lower row.

    Returns
    -------
    float
        Exactly zero where a triangle is broken, and at the accidental zeros.

    References
    ----------
    Varshalovich, Moskalev, Khersonskii, "Quantum Theory of Angular Momentum", 1988, 9.2.1.

    Examples
    --------
    >>> wigner_6j(1, 1, 1, 1, 1, 1), wigner_6j(3, 5, 5, 3, 3, 3)
    (0.16666666666666666, 0.0)
    """
    # Four triangles of the tetrahedron; their coefficients stand under one root.
    triads = ((l1, l2, l3), (l1, l5, l6), (l4, l2, l6), (l4, l5, l3))
    square = math.prod((triangle_coefficient(*triad) for triad in triads), start=Fraction(1))
    return times_root(racah_sum(l1, l2, l3, l4, l5, l6), square) if square else 0.0


@cache
def wigner_9j(first: Row, second: Row, third: Row) -> float:
    r"""Evaluate a 9j symbol of integer degrees, rounded once.

    Parameters
    ----------
    first, second, third : tuple of three int
        Rows of degrees.

    Returns
    -------
    float
        Exactly zero where a row or a column breaks the triangle rule.

    References
    ----------
    Varshalovich, Moskalev, Khersonskii, "Quantum Theory of Angular Momentum", 1988, 10.2.4.

    Examples
    --------
    >>> round(wigner_9j((1, 1, 0), (1, 1, 1), (1, 1, 1)), 12) == round(1 / 18, 12)
    True
    """
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
    """Square of what every triangle of degrees contributes to a symbol.

    Parameters
    ----------
    a, b, c : int
        Degrees.

    Returns
    -------
    Fraction
        Zero where the degrees break the triangle rule.
    """
    sides = (a + b - c, a - b + c, b + c - a)
    if min(sides) < 0:
        return Fraction(0)
    return Fraction(math.prod(map(math.factorial, sides)), math.factorial(a + b + c + 1))


def racah_sum(l1: int, l2: int, l3: int, l4: int, l5: int, l6: int) -> int:
    """Evaluate the integer that remains of a 6j symbol without its triangle coefficients.

    Parameters
    ----------
    l1, l2, l3, l4, l5, l6 : int
        Degrees: the upper and the lower row; all four triangles must hold.

    Returns
    -------
    int
        Of either sign.
    """
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
    """Multiply an exact number by the root of another, whatever their sizes.

    Parameters
    ----------
    factor : int or Fraction
        Of either sign.
    square : Fraction
        Not negative.

    Returns
    -------
    float
        ``factor * sqrt(square)``.
    """
    # Squared first: numerator and denominator may exceed what a float holds, the quotient does not.
    root = math.sqrt(Fraction(factor) ** 2 * square)
    return -root if factor < 0 else root
