"""Conversion of irreps, descriptors and modules of cuEquivariance."""

from equigeo.interop.cuequivariance.convert import convert, from_descriptor
from equigeo.interop.cuequivariance.descriptors import from_cue_irreps, to_cue_irreps, to_descriptor

__all__ = ["convert", "from_cue_irreps", "from_descriptor", "to_cue_irreps", "to_descriptor"]
__dir__ = __all__.copy
