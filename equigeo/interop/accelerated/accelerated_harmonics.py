"""``e3nn.o3.SphericalHarmonics`` on those of this library."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from equigeo.interop._require import require_e3nn
from equigeo.interop.accelerated.accelerated import Accelerated
from equigeo.interop.accelerated.arguments import cheaply_readable, fit, random
from equigeo.interop.descriptions.describe import OURS
from equigeo.interop.descriptions.harmonics_description import HarmonicsDescription
from equigeo.nn.state import stateless
from equigeo.tensor_products import SphericalHarmonics
from equigeo.tensor_products.sphere.harmonics import evaluate_harmonics

SQUARE_OF_SHORTEST = 4e-24  # e3nn divides by 1e-12 at least; a product may round


class AcceleratedHarmonics(Accelerated):
    """An ``e3nn.o3.SphericalHarmonics`` with the ``forward`` of this library."""

    runs_on = "equigeo.tensor_products.SphericalHarmonics"
    # Vectors shorter than 1e-12 are divided by 1e-12, as in e3nn.
    lengths = (1e-17, 1e-30, 0.0, 1e20)

    normalize: bool
    accelerated: SphericalHarmonics

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        """Build the harmonics; see :meth:`Accelerated.body_of`."""
        harmonics = HarmonicsDescription.read(module, "mul_ir", require_e3nn())
        body = replace(harmonics, normalize=False).build(OURS, "SphericalHarmonics")
        harmonics.copy_into(body, module)
        return stateless(body)

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate as ``e3nn.o3.SphericalHarmonics`` does."""
        if not self.is_as_read() or not fit(x) or not _is_here(self.accelerated, x):
            return self.original(x)
        if not self.normalize:
            values: Tensor = self.accelerated(x)
        elif _has_usual_lengths(x):  # then the op normalizes, in a fraction of the time
            harmonics = self.accelerated
            table = harmonics.tables["table", x.dtype]
            values = evaluate_harmonics(x, table, harmonics.degrees, normalize=True)
        else:
            values = self.accelerated(normalize(x, dim=-1))
        return values

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Return random vectors."""
        return (random(rows, 3, like=torch.empty(0)),)


def _is_here(harmonics: nn.Module, x: Tensor) -> bool:
    # Those of e3nn have no tensors, and work on any device.
    return all(table.device == x.device for table in harmonics.buffers())


def _has_usual_lengths(x: Tensor) -> bool:
    """Return whether e3nn divides each vector by its plain length."""
    if not cheaply_readable(x) or x.dtype not in (torch.float32, torch.float64):
        return False
    if not x.numel() or x.shape[-1] != 3:
        return False
    x = x.detach()
    # By a product with ones, which takes less time than a sum or a norm of three components.
    least, most = (x.square() @ x.new_ones(3)).aminmax()
    if type(least) is not Tensor:  # a mode makes tensors without values
        return False
    return float(least) > SQUARE_OF_SHORTEST and isfinite(float(most))
