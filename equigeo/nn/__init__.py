"""Layers shared by all families."""

from equigeo.nn.activation import Activation
from equigeo.nn.gate import Gate
from equigeo.nn.linear import Linear
from equigeo.nn.maps.bilinear_product import BilinearProduct
from equigeo.nn.maps.norm_activation import NormActivation
from equigeo.nn.normalized_activation import NormalizedActivation
from equigeo.nn.norms.equivariant_layer_norm import EquivariantLayerNorm
from equigeo.nn.norms.equivariant_rms_norm import EquivariantRMSNorm
from equigeo.nn.radial.bessel_basis import BesselBasis
from equigeo.nn.radial.gaussian_basis import GaussianBasis
from equigeo.nn.radial.polynomial_cutoff import PolynomialCutoff
from equigeo.nn.radial_mlp import RadialMLP
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
