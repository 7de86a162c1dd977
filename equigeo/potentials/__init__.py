"""Interatomic potentials and their interfaces: energies in eV, lengths in angstrom."""

from equigeo.potentials.atomic_batch import AtomicBatch
from equigeo.potentials.calculator import Calculator
from equigeo.potentials.compile_package import compile_package, export_program
from equigeo.potentials.config import PotentialConfig
from equigeo.potentials.fit_references import FittedReferences, fit_references
from equigeo.potentials.hessian import hessian, hessian_vector_product
from equigeo.potentials.message_passing_potential import MessagePassingPotential
from equigeo.potentials.potential_output import PotentialOutput

__all__ = [
    "AtomicBatch",
    "Calculator",
    "FittedReferences",
    "MessagePassingPotential",
    "PotentialConfig",
    "PotentialOutput",
    "compile_package",
    "export_program",
    "fit_references",
    "hessian",
    "hessian_vector_product",
]


def __dir__() -> list[str]:
    return __all__
