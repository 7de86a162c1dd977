"""How a product of signals is computed: what the methods have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn


class SignalMethod(nn.Module, ABC):
    """A way to multiply signals that are given by their coefficients.

    On its own because every method is one, and the products hold one of them.
    """

    @abstractmethod
    def multiply_adds(self) -> int:
        """Count multiply-accumulate operations.

        Returns
        -------
        int
            For one sample.
        """

    @abstractmethod
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Multiply.

        Parameters
        ----------
        x : Tensor, (samples, (lmax1 + 1)^2), float32 or float64
            First signal.
        y : Tensor, (samples, (lmax2 + 1)^2), dtype of ``x``
            Second signal.

        Returns
        -------
        Tensor, (samples, (lmax_out + 1)^2)
            The product.
        """
