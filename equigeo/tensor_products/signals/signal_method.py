"""Base of methods that compute products of signals."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn


class SignalMethod(nn.Module, ABC):
    """Base of methods that multiply signals given by coefficients."""

    @abstractmethod
    def multiply_adds(self) -> int:
        """Return multiply-accumulate operations per sample."""

    @abstractmethod
    def forward(
        self,
        x: Tensor,  # (samples, (lmax1 + 1)^2)
        y: Tensor,  # (samples, (lmax2 + 1)^2)
    ) -> Tensor:  # (samples, (lmax_out + 1)^2)
        """Multiply two signals in float32 or float64."""
