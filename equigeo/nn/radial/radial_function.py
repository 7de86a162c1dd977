"""Base of functions of distances, with checks of cutoff and distances."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from equigeo._brief import shown
from equigeo.nn.state import SavedOptions
from equigeo.nn.tables import Tables, at_default_device
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.checks import check_tensor
from equigeo.ops.runtime.storage import rounded_once


class RadialFunction(nn.Module, ABC):
    """Base of smooth functions of distances up to a cutoff."""

    def __init__(self, cutoff: float) -> None:
        super().__init__()
        self.cutoff = checked_cutoff(cutoff)

    @computes_in_float32
    def forward(self, distances: Tensor) -> Tensor:
        """Evaluate at distances ``(...)``, to ``(...)`` or ``(..., num_basis)``.

        Derivatives of every order are exact.
        """
        check_tensor("distances", distances)
        if not distances.is_floating_point():
            raise TypeError(f"distances must be floating, got {distances.dtype}")
        out: Tensor = rounded_once(self._evaluate, [distances])
        return out

    @abstractmethod
    def _evaluate(self, distances: Tensor) -> Tensor:
        """Evaluate in float32 or float64."""


class RadialBasis(RadialFunction, SavedOptions, ABC):
    """Base of several functions of distances, each with one number that may be trained."""

    def __init__(
        self,
        cutoff: float,
        numbers: Tensor,  # (num_basis,), initial values
        name: str,  # name of the numbers and of the parameter
        *,
        trainable: bool,
    ) -> None:
        super().__init__(cutoff)
        self.num_basis = len(numbers)
        self.trainable = trainable
        self._name = name
        if trainable:
            first = at_default_device(numbers).to(torch.get_default_dtype())
            self.register_parameter(name, nn.Parameter(first))
        else:
            self.tables = Tables(**{name: numbers})

    def _saved_options(self) -> Mapping[str, Any]:
        return {"cutoff": self.cutoff}

    def _numbers(self, dtype: torch.dtype) -> Tensor:
        """Return the number of each function."""
        if self.trainable:
            parameter: Tensor = getattr(self, self._name)
            return parameter.to(dtype)
        return self.tables[self._name, dtype]

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        trained = ", trainable" if self.trainable else ""
        return f"{self.num_basis} functions, cutoff={self.cutoff:g}{trained}"


def checked_cutoff(cutoff: float) -> float:
    """Validate a positive finite length and return it as a float."""
    if isinstance(cutoff, bool) or not isinstance(cutoff, Real):
        raise TypeError(f"cutoff must be a number, got {shown(cutoff)}")
    if not 0 < float(cutoff) < math.inf:
        raise ValueError(f"cutoff must be positive and finite, got {cutoff}")
    return float(cutoff)
