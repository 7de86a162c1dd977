"""Equivariant products of features: exact, weighted and comparable.

A product is fixed by one number per admissible triple of degrees, which multiplies the same
coupling tensor. Clebsch-Gordan products weight every path; Gaunt, curl, matrix and vector-signal
products sum all paths of a degree and cost less.

A *segment* is the range of a term in a row; a *path* leads from a segment of each input to one of
the output; an *instruction* is a path as a user writes it; its *connection* states how
multiplicities and weights combine; its *coupling* is the tensor of coefficients.
"""

from typing import Any

from equigeo._core.deprecation import Renamed, renamed
from equigeo.tensor_products.analysis.coefficients import interactability
from equigeo.tensor_products.analysis.compare import Comparison, ComparisonRow, compare
from equigeo.tensor_products.analysis.expressivity import expressivity
from equigeo.tensor_products.factory import make, product_names
from equigeo.tensor_products.instructions import Instruction
from equigeo.tensor_products.products.base import Product
from equigeo.tensor_products.products.channelwise import ChannelwiseTensorProduct
from equigeo.tensor_products.products.convolution import ChannelwiseConv
from equigeo.tensor_products.products.path_product import PathProduct
from equigeo.tensor_products.products.symmetric_contraction import SymmetricContraction
from equigeo.tensor_products.products.tensor_product import (
    ElementwiseTensorProduct,
    FullTensorProduct,
    FullyConnectedTensorProduct,
    TensorProduct,
)
from equigeo.tensor_products.products.tensor_square import TensorSquare
from equigeo.tensor_products.signals.couplings import curl_coupling, gaunt_coupling
from equigeo.tensor_products.signals.gaunt import CurlTensorProduct, GauntTensorProduct
from equigeo.tensor_products.signals.matrix import MatrixTensorProduct
from equigeo.tensor_products.signals.s2_activation import S2Activation, S2SwiGLU
from equigeo.tensor_products.signals.signal_product import DegreeWeights, SignalProduct
from equigeo.tensor_products.signals.signal_tensor_product import SignalTensorProduct
from equigeo.tensor_products.signals.vector_signals import VectorSignalTensorProduct
from equigeo.tensor_products.so2.so2_conv import SO2Config, SO2Conv
from equigeo.tensor_products.sphere.sphere_grid import SphereGrid
from equigeo.tensor_products.sphere.spherical_harmonics import (
    SphericalHarmonics,
    spherical_harmonics,
)

__all__ = [
    "ChannelwiseConv",
    "ChannelwiseTensorProduct",
    "Comparison",
    "CurlTensorProduct",
    "DegreeWeights",
    "ElementwiseTensorProduct",
    "FullTensorProduct",
    "FullyConnectedTensorProduct",
    "GauntTensorProduct",
    "Instruction",
    "MatrixTensorProduct",
    "PathProduct",
    "Product",
    "S2Activation",
    "S2SwiGLU",
    "SO2Conv",
    "SignalTensorProduct",
    "SphereGrid",
    "SphericalHarmonics",
    "SymmetricContraction",
    "TensorProduct",
    "TensorSquare",
    "VectorSignalTensorProduct",
    "compare",
    "expressivity",
    "interactability",
    "make",
    "product_names",
    "spherical_harmonics",
]


def _radial(a: Any, b: Any, out: Any, num_hidden: int, *args: Any, **more: Any) -> ChannelwiseConv:
    return ChannelwiseConv(a, b, out, *args, num_hidden=num_hidden, **more)


def _radial_so2(a: Any, out: Any, num_hidden: int, **more: Any) -> SO2Conv:
    return SO2Conv(a, out, num_hidden=num_hidden, **more)


__getattr__ = renamed(
    __name__,
    {
        "ComparisonRow": Renamed("Comparison.rows", "0.3", ComparisonRow),
        "RadialChannelwiseConv": Renamed("ChannelwiseConv(num_hidden=...)", "0.3", _radial),
        "RadialSO2Conv": Renamed("SO2Conv(num_hidden=...)", "0.3", _radial_so2),
        "SO2Config": Renamed("arguments of SO2Conv", "0.3", SO2Config),
        "SignalProduct": Renamed("Product", "0.3", SignalProduct),
        "curl_coupling": Renamed("CurlTensorProduct.coefficient", "0.3", curl_coupling),
        "gaunt_coupling": Renamed("GauntTensorProduct.coefficient", "0.3", gaunt_coupling),
    },
)


def __dir__() -> list[str]:
    return __all__
