"""Equivariant products of features: exact, weighted and comparable.

Every product is fixed by one number for each admissible triple of degrees, which multiplies the
same coupling tensor. Clebsch-Gordan products keep every path apart; Gaunt, curl, matrix and
vector-signal products add all paths of a degree up, and are cheaper for it.
"""

from equigeo.tensor_products.channelwise_conv import ChannelwiseConv
from equigeo.tensor_products.channelwise_tensor_product import ChannelwiseTensorProduct
from equigeo.tensor_products.degree_weights import DegreeWeights
from equigeo.tensor_products.elementwise_tensor_product import ElementwiseTensorProduct
from equigeo.tensor_products.freedom.compare import compare
from equigeo.tensor_products.freedom.comparison import Comparison, ComparisonRow
from equigeo.tensor_products.freedom.expressivity import expressivity
from equigeo.tensor_products.freedom.interactability import interactability
from equigeo.tensor_products.full_tensor_product import FullTensorProduct
from equigeo.tensor_products.fully_connected_tensor_product import FullyConnectedTensorProduct
from equigeo.tensor_products.instruction import Instruction
from equigeo.tensor_products.make import make, product_names
from equigeo.tensor_products.matrix_tensor_product import MatrixTensorProduct
from equigeo.tensor_products.product import Product
from equigeo.tensor_products.radial_channelwise_conv import RadialChannelwiseConv
from equigeo.tensor_products.signals.curl_coupling import curl_coupling
from equigeo.tensor_products.signals.curl_tensor_product import CurlTensorProduct
from equigeo.tensor_products.signals.gaunt_coupling import gaunt_coupling
from equigeo.tensor_products.signals.gaunt_tensor_product import GauntTensorProduct
from equigeo.tensor_products.signals.signal_product import SignalProduct
from equigeo.tensor_products.signals.signal_tensor_product import SignalTensorProduct
from equigeo.tensor_products.signals.vector_signal_tensor_product import VectorSignalTensorProduct
from equigeo.tensor_products.sphere.sphere_grid import SphereGrid
from equigeo.tensor_products.sphere.spherical_harmonics import spherical_harmonics
from equigeo.tensor_products.sphere.spherical_harmonics_module import SphericalHarmonics
from equigeo.tensor_products.symmetric_contraction import SymmetricContraction
from equigeo.tensor_products.tensor_product import TensorProduct
from equigeo.tensor_products.tensor_square import TensorSquare

__all__ = [
    "ChannelwiseConv",
    "ChannelwiseTensorProduct",
    "Comparison",
    "ComparisonRow",
    "CurlTensorProduct",
    "DegreeWeights",
    "ElementwiseTensorProduct",
    "FullTensorProduct",
    "FullyConnectedTensorProduct",
    "GauntTensorProduct",
    "Instruction",
    "MatrixTensorProduct",
    "Product",
    "RadialChannelwiseConv",
    "SignalProduct",
    "SignalTensorProduct",
    "SphereGrid",
    "SphericalHarmonics",
    "SymmetricContraction",
    "TensorProduct",
    "TensorSquare",
    "VectorSignalTensorProduct",
    "compare",
    "curl_coupling",
    "expressivity",
    "gaunt_coupling",
    "interactability",
    "make",
    "product_names",
    "spherical_harmonics",
]
