"""Spherical harmonics in terms that every library shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from equigeo.interop.descriptions.module_state import building
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout


@dataclass(frozen=True)
class HarmonicsDescription:
    """Map of a ``SphericalHarmonics`` of any library."""

    irreps_in: Irreps  # a vector or pseudovector
    irreps_out: Irreps
    normalize: bool  # whether vectors are normalized first
    normalization: str

    @classmethod
    def read(cls, module: Any, layout: Layout, library: Any) -> HarmonicsDescription:
        """Read a module of e3nn or of this library: both have the same attributes."""
        return cls(
            irreps_in=Irreps(tuple(module.irreps_in), layout),
            irreps_out=Irreps(tuple(module.irreps_out), layout),
            normalize=module.normalize,
            normalization=module.normalization,
        )

    @property
    def layout(self) -> Layout:
        """Return the layout of both sides."""
        return self.irreps_in.layout

    def build(self, library: Any, name: str) -> Any:
        """Build the module in ``e3nn.o3`` or in this library."""
        make = getattr(library, "Irreps", lambda irreps: irreps)
        with building():
            return library.SphericalHarmonics(
                make(self.irreps_out), self.normalize, self.normalization, make(self.irreps_in)
            )

    def copy_into(self, target: nn.Module, source: nn.Module) -> None:
        """Copy the training flag, the only state, to a module from :meth:`build`."""
        target.to(torch.get_default_dtype()).train(source.training)
