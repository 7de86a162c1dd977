"""Representations: actions of a group on the last axis of a tensor, as frozen values.

``+`` is the direct sum, ``@`` the tensor product (first factor slowest, unsorted). Irreps of O(3)
follow the conventions of e3nn.
"""

from equigeo._core.deprecation import Renamed, renamed
from equigeo.reps.intertwiners import Decomposition, decompose, intertwiners, is_isomorphic
from equigeo.reps.irreps import Irreps
from equigeo.reps.permutation import Field, PlanarIrrep, Points, Regular, Trivial
from equigeo.reps.representation import (
    DirectSum,
    Dual,
    Kronecker,
    Representation,
    Restricted,
    Summand,
)
from equigeo.reps.tensor_rep import AltPower, SymPower, TensorRep
from equigeo.reps.wigner import wigner_3j, wigner_d

__all__ = [
    "AltPower",
    "Field",
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
    "wigner_3j",
    "wigner_d",
]


def __dir__() -> list[str]:
    return __all__


__getattr__ = renamed(
    __name__,
    {
        "Decomposition": Renamed("decompose", "0.3", Decomposition),
        "DirectSum": Renamed("the operator +", "0.3", DirectSum),
        "Dual": Renamed("Representation.dual", "0.3", Dual),
        "Kronecker": Renamed("the operator @", "0.3", Kronecker),
        "Restricted": Renamed("Representation.restrict", "0.3", Restricted),
        "is_isomorphic": Renamed("decompose", "0.3", is_isomorphic),
        "so3_generators": Renamed(
            "Irreps.generators", "0.3", lambda l: Irreps([(1, (l, 1))]).generators()
        ),
    },
)
