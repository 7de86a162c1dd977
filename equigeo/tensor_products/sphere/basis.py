"""Bases of functions on the sphere, which differ by a factor per degree."""

from __future__ import annotations

import math
from typing import Literal

Basis = Literal["component", "integral", "norm"]


def basis_scale(name: str, basis: str, l: int) -> float:
    """Ratio of a basis function to the one of variance one, ``"component"``.

    Parameters
    ----------
    name : str
        Argument that ``basis`` came by, for the message.
    basis : {"component", "integral", "norm"}
        Whose squares, summed over orders, are ``2 l + 1``; integrate to ``2 l + 1``; are 1.
    l : int
        Degree.

    Returns
    -------
    float
        The ratio.

    Raises
    ------
    ValueError
        If the basis is unknown.
    """
    # Sums of squares over orders: 2 l + 1, (2 l + 1) / 4 pi, and 1.
    scales = {
        "component": 1.0,
        "integral": math.sqrt(1 / (4 * math.pi)),
        "norm": math.sqrt(1 / (2 * l + 1)),
    }
    if basis not in scales:
        raise ValueError(f'{name} must be "component", "integral" or "norm", got {basis!r}')
    return scales[basis]
