"""Layers that all families share."""

from equigeo.nn.activation import Activation
from equigeo.nn.gate import Gate
from equigeo.nn.linear import Linear
from equigeo.nn.maps.bilinear_product import BilinearProduct
from equigeo.nn.normalized_activation import NormalizedActivation
from equigeo.nn.radial_mlp import RadialMLP
from equigeo.nn.tables import Tables

__all__ = [
    "Activation",
    "BilinearProduct",
    "Gate",
    "Linear",
    "NormalizedActivation",
    "RadialMLP",
    "Tables",
]


def __dir__() -> list[str]:
    return __all__
