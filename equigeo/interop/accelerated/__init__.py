"""Classes of accelerated modules: the original state with a ``forward`` on ops of this library."""

from equigeo.interop.accelerated.accelerated import Accelerated
from equigeo.interop.accelerated.accelerated_batch_norm import AcceleratedBatchNorm
from equigeo.interop.accelerated.accelerated_contraction import AcceleratedContraction
from equigeo.interop.accelerated.accelerated_convolution import AcceleratedConvolution
from equigeo.interop.accelerated.accelerated_gate import AcceleratedGate
from equigeo.interop.accelerated.accelerated_harmonics import AcceleratedHarmonics
from equigeo.interop.accelerated.accelerated_linear import AcceleratedLinear
from equigeo.interop.accelerated.accelerated_points_convolution import (
    AcceleratedAngleConvolution,
    AcceleratedFixedConvolution,
    AcceleratedWeightedConvolution,
)
from equigeo.interop.accelerated.accelerated_product import AcceleratedProduct, AcceleratedSquare
from equigeo.interop.accelerated.accelerated_radial_network import AcceleratedRadialNetwork
from equigeo.interop.accelerated.accelerated_scatter import AcceleratedScatter

__all__ = [
    "Accelerated",
    "AcceleratedAngleConvolution",
    "AcceleratedBatchNorm",
    "AcceleratedContraction",
    "AcceleratedConvolution",
    "AcceleratedFixedConvolution",
    "AcceleratedGate",
    "AcceleratedHarmonics",
    "AcceleratedLinear",
    "AcceleratedProduct",
    "AcceleratedRadialNetwork",
    "AcceleratedScatter",
    "AcceleratedSquare",
    "AcceleratedWeightedConvolution",
]


def __dir__() -> list[str]:
    return __all__
