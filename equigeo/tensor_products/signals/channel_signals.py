"""Features that are several functions on the sphere side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.reps import Irreps


class ChannelSignals:
    """Coefficients of functions on the sphere with one term per degree, such as ``16x0e+16x1o``."""

    def __init__(
        self,
        name: str,  # argument name in messages
        irreps: Irreps,
    ) -> None:
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

    def split(
        self,
        features: Tensor,  # (..., irreps.dim)
    ) -> Tensor:  # (..., channels, (lmax + 1)^2)
        """Return features with a separate channel axis; (l, m) is at ``l^2 + l + m``."""
        if self.irreps.layout == "ir_mul":
            return features.unflatten(-1, ((self.lmax + 1) ** 2, self.channels)).mT
        shapes = [(self.channels, 2 * l + 1) for l in range(self.lmax + 1)]
        pieces = features.split([channels * dim for channels, dim in shapes], -1)
        return torch.cat([p.unflatten(-1, s) for p, s in zip(pieces, shapes, strict=True)], -1)

    def join(
        self,
        signals: Tensor,  # (..., channels, (lmax + 1)^2)
    ) -> Tensor:  # (..., irreps.dim)
        """Apply the inverse of :meth:`split`."""
        if self.irreps.layout == "ir_mul":
            return signals.mT.flatten(-2)
        pieces = signals.split([2 * l + 1 for l in range(self.lmax + 1)], -1)
        return torch.cat([piece.flatten(-2) for piece in pieces], -1)
