"""Representations: actions of a group on the last axis of a tensor, as frozen values.

``+`` is the direct sum, ``@`` the tensor product (first factor slowest, unsorted). Irreps of O(3)
follow the conventions of e3nn.
"""

from equigeo.reps.decompose import Decomposition, decompose
from equigeo.reps.direct_sum import DirectSum
from equigeo.reps.dual import Dual
from equigeo.reps.intertwiners import intertwiners, is_isomorphic
from equigeo.reps.irreps import Irreps
from equigeo.reps.kronecker import Kronecker
from equigeo.reps.planar_irrep import PlanarIrrep
from equigeo.reps.points import Points
from equigeo.reps.regular import Regular
from equigeo.reps.representation import Representation, Summand
from equigeo.reps.restricted import Restricted
from equigeo.reps.so3_generators import so3_generators
from equigeo.reps.tensor_power import AltPower, SymPower
from equigeo.reps.tensor_rep import TensorRep
from equigeo.reps.trivial import Trivial
from equigeo.reps.wigner_3j import wigner_3j
from equigeo.reps.wigner_d import wigner_d

__all__ = [
    "AltPower",
    "Decomposition",
    "DirectSum",
    "Dual",
    "Irreps",
    "Kronecker",
    "PlanarIrrep",
    "Points",
    "Regular",
    "Representation",
    "Restricted",
    "Summand",
    "SymPower",
    "TensorRep",
    "Trivial",
    "decompose",
    "intertwiners",
    "is_isomorphic",
    "so3_generators",
    "wigner_3j",
    "wigner_d",
]


def __dir__() -> list[str]:
    return __all__
