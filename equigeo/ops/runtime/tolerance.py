"""The only source of tolerances: from precision and length, never from what was observed."""

from __future__ import annotations

import math

import torch


def tolerance(
    dtype: torch.dtype,  # dtype of the computation
    terms: int | float = 1,  # length of the longest contraction, at least 1
    condition: float = 1.0,  # relative error amplification, at least 1
) -> dict[str, float]:
    """Return ``rtol`` and ``atol`` of a computation for :func:`torch.testing.assert_close`."""
    if not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(f"dtype must be floating or complex, got {dtype}")
    for name, value in (("terms", terms), ("condition", condition)):
        if not 1 <= value < math.inf:
            raise ValueError(f"{name} must be finite and at least 1, got {value}")
    # Rounding errors of a sum grow like the square root of its length; 32 covers the short chain of
    # operations around it. Values should be of order one: scale the data, not the tolerance.
    bound = 32 * torch.finfo(dtype).eps * math.sqrt(terms) * condition
    return {"rtol": bound, "atol": bound}
