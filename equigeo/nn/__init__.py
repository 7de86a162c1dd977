"""Layers shared by all families."""

from equigeo.nn.activation import Activation, NormActivation, NormalizedActivation
from equigeo.nn.gate import Gate
from equigeo.nn.linear import BilinearProduct, Linear
from equigeo.nn.norm import EquivariantLayerNorm, EquivariantRMSNorm
from equigeo.nn.radial import BesselBasis, GaussianBasis, PolynomialCutoff, RadialMLP
from equigeo.nn.tables import Tables

__all__ = [
    "Activation",
    "BesselBasis",
    "BilinearProduct",
    "EquivariantLayerNorm",
    "EquivariantRMSNorm",
    "Gate",
    "GaussianBasis",
    "Linear",
    "NormActivation",
    "NormalizedActivation",
    "PolynomialCutoff",
    "RadialMLP",
    "Tables",
]


def __dir__() -> list[str]:
    return __all__
