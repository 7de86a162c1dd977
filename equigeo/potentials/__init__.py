"""Interatomic potentials and their interfaces: energies in eV, lengths in angstrom."""

from equigeo._deprecation import Renamed, renamed
from equigeo.potentials.atomic_batch import AtomicBatch
from equigeo.potentials.calculator import Calculator
from equigeo.potentials.compile_package import compile_package, export_program
from equigeo.potentials.config import PotentialConfig
from equigeo.potentials.fit_references import FittedReferences as _FittedReferences
from equigeo.potentials.fit_references import fit_references
from equigeo.potentials.hessian import hessian, hessian_vector_product
from equigeo.potentials.message_passing_potential import MessagePassingPotential
from equigeo.potentials.potential_output import PotentialOutput

__all__ = [
    "AtomicBatch",
    "Calculator",
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


__getattr__ = renamed(
    __name__, {"FittedReferences": Renamed("fit_references", "0.3", _FittedReferences)}
)
