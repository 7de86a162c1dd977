"""A module that can be accelerated, with its replacement."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.interop.accelerated.accelerated import Accelerated

FUSION = "conv_fusion"  # attribute by which a block of MACE leaves gather and scatter to conv_tp
HERE = "equigeo"  # its value
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-6}  # tables may be rounded to float32


@dataclass(frozen=True)
class Candidate:
    """A prepared replacement of a module, which can be installed and reverted."""

    path: str  # name of the module in its model
    module: Any  # module to accelerate
    kind: type[Accelerated]  # class to install
    body: nn.Module  # module that computes the result
    block: nn.Module | None = None  # block of MACE that needs a flag

    @property
    def kind_name(self) -> str:
        """Return the name of the original class."""
        cls = type(self.module)
        return (cls.made_of[1] if issubclass(cls, Accelerated) else cls).__name__

    def install(self, device: torch.device) -> None:
        """Accelerate the module, on the given device if it has no tensors."""
        own = next(chain(self.module.parameters(), self.module.buffers()), None)
        self.kind.install(self.module, self.body.to(device if own is None else own.device))
        if self.block is not None:
            setattr(self.block, FUSION, HERE)

    def uninstall(self) -> None:
        """Revert :meth:`install`, also if it failed or did not run."""
        if getattr(self.block, FUSION, None) == HERE:
            delattr(self.block, FUSION)
        if isinstance(self.module, Accelerated):
            self.module.uninstall()

    def problem(self) -> str | None:
        """Return the difference to the original module on random features, or None."""
        arguments = self.module.example()
        with torch.no_grad(), self.module.unchanged():
            try:
                before = self.module.original(*arguments)
            except Exception as error:  # any error of the other library
                lines = str(error).strip().splitlines() or [type(error).__name__]
                return f"fails on an example: {lines[-1]}"
            after = self.module.forward(*arguments)
        return _difference(before, after)


def _difference(before: Tensor, after: Tensor) -> str | None:
    limit = TOLERANCE.get(before.dtype)
    if limit is None or before.is_meta or not before.isfinite().all():
        return None
    if before.shape != after.shape:
        return f"output shape {tuple(after.shape)} differs from the original {tuple(before.shape)}"
    error, scale = float((after - before).norm()), float(before.norm())
    if error <= limit * scale:
        return None
    return f"relative error {error / (scale or 1.0):.1e} exceeds {limit:.0e}"
