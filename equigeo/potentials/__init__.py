"""Interatomic potentials and their interfaces: energies in eV, lengths in angstrom."""

from equigeo._core.deprecation import Renamed, renamed
from equigeo.potentials.batch import AtomicBatch, PotentialOutput
from equigeo.potentials.calculator import Calculator, hessian, hessian_vector_product
from equigeo.potentials.config import PotentialConfig
from equigeo.potentials.export import compile_package, export_program
from equigeo.potentials.potential import FittedReferences, MessagePassingPotential, fit_references
from equigeo.potentials.uncertainty import LastLayerUncertainty

__all__ = [
    "AtomicBatch",
    "Calculator",
    "LastLayerUncertainty",
    "MessagePassingPotential",
    "PotentialConfig",
    "PotentialOutput",
    "compile_package",
    "export_program",
    "fit_references",
    "hessian",
    "hessian_vector_product",
]
__dir__ = __all__.copy


__getattr__ = renamed(
    __name__, {"FittedReferences": Renamed("fit_references", "0.3", FittedReferences)}
)
