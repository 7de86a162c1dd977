"""The base of layers from irreps to irreps."""

from __future__ import annotations

from abc import ABC

from equigeo.nn.state import SavedOptions
from equigeo.reps import Irreps, Representation


class IrrepsLayer(SavedOptions, ABC):
    """A layer that takes features of one representation of O(3) to those of another.

    Attributes
    ----------
    irreps_in, irreps_out : Irreps
        Set by the constructor; what users of e3nn look for.

    Examples
    --------
    >>> from equigeo.nn import Linear
    >>> str(Linear("4x0e + 2x1o", "3x1o").rep_in)
    '4x0e+2x1o'
    """

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
