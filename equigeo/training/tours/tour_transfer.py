"""Tours of one instance of TSPLIB."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TourTransfer:
    """Tours of one instance of TSPLIB.

    Parameters
    ----------
    name : str
        Of the instance.
    cities : int
        How many.
    best : int
        Best known length.
    lengths : dict of int
        By decoding, with the distances of TSPLIB.
    flagged : bool
        Whether the embedding reports a symmetry.
    """

    name: str
    cities: int
    best: int
    lengths: dict[str, int]
    flagged: bool
