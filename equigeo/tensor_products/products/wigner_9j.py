"""Exact 9j symbols."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

from equigeo.tensor_products.products.wigner_6j import racah_sum, times_root, triangle_coefficient

Row = tuple[int, int, int]


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
    for x in range(max(abs(a - i), abs(d - h), abs(b - f)), min(a + i, d + h, b + f) + 1):
        roots = math.prod(triangle_coefficient(*t, x) for t in ((a, i), (d, h), (b, f)))
        sums = racah_sum(a, d, g, h, i, x) * racah_sum(b, e, h, d, x, f)
        total += (2 * x + 1) * roots * sums * racah_sum(c, f, i, x, a, b)
    return times_root(total, fixed)
