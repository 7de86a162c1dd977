"""Bases of functions on the sphere, which differ by a factor per degree."""

from __future__ import annotations

import math
from typing import Literal

Basis = Literal["component", "integral", "norm"]


def basis_scale(
    name: str,  # argument name in messages
    basis: str,
    l: int,  # degree
) -> float:
    """Return the ratio of a basis function to that of the basis ``"component"``."""
    # Sums of squares over orders: 2 l + 1, (2 l + 1) / 4 pi, and 1.
    scales = {
        "component": 1.0,
        "integral": math.sqrt(1 / (4 * math.pi)),
        "norm": math.sqrt(1 / (2 * l + 1)),
    }
    if basis not in scales:
        raise ValueError(f'{name} must be "component", "integral" or "norm", got {basis!r}')
    return scales[basis]
