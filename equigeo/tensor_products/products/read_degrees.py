"""Largest degrees of the signals of a product."""

from __future__ import annotations

from operator import index


def read_degrees(lmax1: int, lmax2: int, lmax_out: int) -> tuple[int, int, int]:
    """Refuse degrees that no product of signals can have.

    Parameters
    ----------
    lmax1, lmax2, lmax_out : int
        Largest degrees, included.

    Returns
    -------
    tuple of three int
        The same.

    Raises
    ------
    TypeError
        If one is not an integer.
    ValueError
        If one is negative, or the last above the sum of the others.
    """
    degrees = index(lmax1), index(lmax2), index(lmax_out)
    if min(degrees) < 0 or degrees[2] > degrees[0] + degrees[1]:
        raise ValueError(
            "degrees must not be negative, nor lmax_out above lmax1 + lmax2, got "
            f"lmax1={lmax1}, lmax2={lmax2}, lmax_out={lmax_out}"
        )
    return degrees
