"""Tours of transformed copies, beside those of the originals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TourCopyResult:
    """Greedy tours of transformed copies.

    Parameters
    ----------
    kind : str
        One of ``TOUR_COPIES``.
    identical : float
        Share of instances whose tour is the same set of edges.
    gap : float
        Mean length of the tours over the optimal one, less one; both of the originals.
    flagged : int
        Copies that the embedding reports as symmetric.
    """

    kind: str
    identical: float
    gap: float
    flagged: int
