"""Representations: actions of a group on the last axis of a tensor, as frozen values.

``+`` is the direct sum, ``@`` the tensor product (first factor slowest, unsorted). Irreps of O(3)
follow the conventions of e3nn.
"""

from equigeo._deprecation import Renamed, renamed
from equigeo.reps.decompose import Decomposition as _Decomposition
from equigeo.reps.decompose import decompose
from equigeo.reps.direct_sum import DirectSum as _DirectSum
from equigeo.reps.dual import Dual as _Dual
from equigeo.reps.intertwiners import intertwiners, is_isomorphic
from equigeo.reps.irreps import Irreps
from equigeo.reps.kronecker import Kronecker as _Kronecker
from equigeo.reps.planar_irrep import PlanarIrrep
from equigeo.reps.points import Points
from equigeo.reps.regular import Regular
from equigeo.reps.representation import Representation, Summand
from equigeo.reps.restricted import Restricted as _Restricted
from equigeo.reps.tensor_power import AltPower, SymPower
from equigeo.reps.tensor_rep import TensorRep
from equigeo.reps.trivial import Trivial
from equigeo.reps.wigner_3j import wigner_3j
from equigeo.reps.wigner_d import wigner_d

__all__ = [
    "AltPower",
    "Irreps",
    "PlanarIrrep",
    "Points",
    "Regular",
    "Representation",
    "Summand",
    "SymPower",
    "TensorRep",
    "Trivial",
    "decompose",
    "intertwiners",
    "is_isomorphic",
    "wigner_3j",
    "wigner_d",
]


def __dir__() -> list[str]:
    return __all__


__getattr__ = renamed(
    __name__,
    {
        "Decomposition": Renamed("decompose", "0.3", _Decomposition),
        "DirectSum": Renamed("the operator +", "0.3", _DirectSum),
        "Dual": Renamed("Representation.dual", "0.3", _Dual),
        "Kronecker": Renamed("the operator @", "0.3", _Kronecker),
        "Restricted": Renamed("Representation.restrict", "0.3", _Restricted),
        "so3_generators": Renamed(
            "Irreps.generators", "0.3", lambda l: Irreps([(1, (l, 1))]).generators()
        ),
    },
)
