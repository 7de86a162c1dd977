"""The base of layers from irreps to irreps."""

from __future__ import annotations

from abc import ABC

from equigeo.nn.state import SavedOptions
from equigeo.reps import Irreps, Representation


class IrrepsLayer(SavedOptions, ABC):
    """Base of layers between irreps of O(3); sets ``irreps_in`` and ``irreps_out`` as in e3nn."""

    irreps_in: Irreps
    irreps_out: Irreps

    @property
    def rep_in(self) -> Representation:
        """Representation of the input."""
        return self.irreps_in

    @property
    def rep_out(self) -> Representation:
        """Representation of the output."""
        return self.irreps_out
