"""Base of all equivariant products."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from equigeo.graphs.inputs import kind_of
from equigeo.nn.maps.fit_together import fit_together
from equigeo.reps import Irreps, Representation
from equigeo.tensor_products.paths.leading_axes import broadcast_batch


class Product(nn.Module, ABC):
    """Base of equivariant bilinear maps of two features, batched over leading axes.

    Subclasses implement :meth:`forward`, which calls :meth:`check_inputs` first, and
    :meth:`multiply_adds`. ``weight_numel`` is the number of weights that ``forward`` takes as a
    third argument, 0 for a product without.
    """

    weight_numel: int = 0

    def __init__(self, irreps_in1: Irreps, irreps_in2: Irreps, irreps_out: Irreps) -> None:
        super().__init__()
        self.irreps_in1 = irreps_in1
        self.irreps_in2 = irreps_in2
        self.irreps_out = irreps_out

    @property
    def rep_in(self) -> tuple[Representation, Representation]:
        """Representations of the two inputs."""
        return self._represent(self.irreps_in1), self._represent(self.irreps_in2)

    @property
    def rep_out(self) -> Representation:
        """Representation of the output."""
        return self._represent(self.irreps_out)

    @abstractmethod
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Multiply ``x`` (..., irreps_in1.dim) and ``y`` (..., irreps_in2.dim), which broadcast.

        Return (..., irreps_out.dim) in the dtype of the inputs, zero where no path leads. Channels
        of signals are a leading axis.
        """

    def multiply_adds(self) -> int:
        """Return multiply-accumulate operations per sample of the forward pass as implemented."""
        raise NotImplementedError(f"{type(self).__name__} does not count its work")

    def check_inputs(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> torch.Size:
        """Return the broadcast batch axes after validating dtypes, devices and shapes."""
        if y is not None and fit_together(
            (x, y, weight), (self.irreps_in1.dim, self.irreps_in2.dim, self.weight_numel)
        ):
            return x.shape[:-1]
        named = {"x": (x, self.irreps_in1.dim), "y": (y, self.irreps_in2.dim)}
        if weight is not None:
            named["weight"] = (weight, self.weight_numel)
        check_components(named)
        try:
            return broadcast_batch(*(value for value, _ in named.values()))
        except RuntimeError as error:
            given = ", ".join(f"{name} {tuple(v.shape)}" for name, (v, _) in named.items())
            raise ValueError(f"leading axes must broadcast, got {given}") from error

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        return f"{self.irreps_in1} x {self.irreps_in2} -> {self.irreps_out}"

    def _represent(self, irreps: Irreps) -> Representation:
        """Return the representation of irreps: of O(3), or of a subgroup for some products."""
        return irreps


def check_components(
    named: dict[str, tuple[Tensor, int]],  # tensor and last axis by name; x comes first
) -> None:
    """Raise if last axes, dtypes or devices of tensors do not match."""
    x = next(iter(named.values()))[0]
    for name, (value, dim) in named.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a Tensor, got {kind_of(value)}")
        if not value.is_floating_point():
            raise TypeError(f"{name} must be floating, got {value.dtype}")
        if value.ndim == 0 or value.shape[-1] != dim:
            raise ValueError(f"{name} must be (..., {dim}), got {tuple(value.shape)}")
        if value.dtype != x.dtype:
            raise TypeError(f"{name} must have the dtype of x, {x.dtype}, got {value.dtype}")
        if value.device != x.device:
            raise ValueError(f"{name} must be on the device of x, {x.device}: {value.device}")
