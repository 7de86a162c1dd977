"""Classes of accelerated modules: the original state with a ``forward`` on ops of this library."""

from equigeo.interop.accelerated.base import Accelerated
from equigeo.interop.accelerated.edges import (
    AcceleratedAngleConvolution,
    AcceleratedConvolution,
    AcceleratedFixedConvolution,
    AcceleratedScatter,
    AcceleratedWeightedConvolution,
)
from equigeo.interop.accelerated.layers import (
    AcceleratedBatchNorm,
    AcceleratedGate,
    AcceleratedHarmonics,
    AcceleratedLinear,
    AcceleratedRadialNetwork,
)
from equigeo.interop.accelerated.product import (
    AcceleratedContraction,
    AcceleratedProduct,
    AcceleratedSquare,
)

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
