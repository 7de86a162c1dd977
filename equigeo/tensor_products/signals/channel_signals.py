"""Features that are several functions on the sphere side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.reps import Irreps


class ChannelSignals:
    """Coefficients of functions, each degree in a term whose multiplicity is the channels.

    Parameters
    ----------
    name : str
        Of the argument, for the error.
    irreps : Irreps
        As ``16x0e+16x1o+16x2e``.

    Attributes
    ----------
    lmax, channels, parity : int
        Largest degree, number of functions, and sign of their values under reflections.

    Raises
    ------
    ValueError
        If the degrees are not 0, 1, 2, ... with one multiplicity and the parities of a function.

    Examples
    --------
    >>> signals = ChannelSignals("irreps", Irreps("2x0e + 2x1o"))
    >>> signals.split(torch.arange(8)).tolist()
    [[0, 2, 3, 4], [1, 5, 6, 7]]
    >>> signals.join(signals.split(torch.arange(8))).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    """

    def __init__(self, name: str, irreps: Irreps) -> None:
        self.irreps = irreps
        self.lmax = len(irreps.terms) - 1
        first = irreps.terms[0] if irreps.terms else (0, (0, 1))
        self.channels, (_, self.parity) = first
        want = [(self.channels, (l, self.parity * (-1) ** l)) for l in range(self.lmax + 1)]
        if not want or list(irreps.terms) != want:
            raise ValueError(
                f"{name} must be signals on the sphere with one multiplicity, such as "
                f"8x0e+8x1o+8x2e, got {irreps}"
            )

    def split(self, features: Tensor) -> Tensor:
        """Put the channels on an axis of their own.

        Parameters
        ----------
        features : Tensor, (..., irreps.dim)
            In the layout of the irreps.

        Returns
        -------
        Tensor, (..., channels, (lmax + 1)^2)
            Coefficients of each function; degree l and order m at ``l^2 + l + m``.
        """
        if self.irreps.layout == "ir_mul":
            return features.unflatten(-1, ((self.lmax + 1) ** 2, self.channels)).mT
        shapes = [(self.channels, 2 * l + 1) for l in range(self.lmax + 1)]
        pieces = features.split([channels * dim for channels, dim in shapes], -1)
        return torch.cat([p.unflatten(-1, s) for p, s in zip(pieces, shapes, strict=True)], -1)

    def join(self, signals: Tensor) -> Tensor:
        """Undo :meth:`split`.

        Parameters
        ----------
        signals : Tensor, (..., channels, (lmax + 1)^2)
            Coefficients.

        Returns
        -------
        Tensor, (..., irreps.dim)
            In the layout of the irreps.
        """
        if self.irreps.layout == "ir_mul":
            return signals.mT.flatten(-2)
        pieces = signals.split([2 * l + 1 for l in range(self.lmax + 1)], -1)
        return torch.cat([piece.flatten(-2) for piece in pieces], -1)
