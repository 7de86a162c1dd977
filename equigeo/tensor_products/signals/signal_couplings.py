"""The strengths with which products of two functions on the sphere couple degrees."""

from __future__ import annotations

import math

from equigeo.reps.wigner_3j import wigner_3j_table
from equigeo.tensor_products.sphere.basis import Basis, basis_scale


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
