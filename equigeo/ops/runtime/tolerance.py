"""Tolerances from precision and length, never from observed errors."""

from __future__ import annotations

import math

import torch


def tolerance(
    dtype: torch.dtype, terms: int | float = 1, condition: float = 1.0
) -> dict[str, float]:
    r"""Return ``rtol`` and ``atol`` of a computation for :func:`torch.testing.assert_close`.

    .. math:: \mathrm{rtol} = \mathrm{atol} = 32\,\epsilon\,\sqrt{\mathrm{terms}}\,\kappa

    Rounding errors of a sum grow like the square root of its length; 32 covers the short chain of
    operations around it. Values are taken to be of order one: scale the data, not the tolerance.

    Parameters
    ----------
    dtype : torch.dtype, floating or complex
        Dtype of the computation.
    terms : int or float
        Length of the longest contraction, at least 1.
    condition : float
        Condition number of the computation, at least 1: amplification of relative errors.

    Examples
    --------
    >>> tolerance(torch.float64, terms=64)["rtol"] == 2.0**-44
    True
    """
    if not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(f"dtype must be floating or complex, got {dtype}")
    for name, value in (("terms", terms), ("condition", condition)):
        if not 1 <= value < math.inf:
            raise ValueError(f"{name} must be finite and at least 1, got {value}")
    bound = 32 * torch.finfo(dtype).eps * math.sqrt(terms) * condition
    return {"rtol": bound, "atol": bound}
