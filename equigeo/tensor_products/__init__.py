"""Equivariant products of features: exact, weighted and comparable.

Every product is fixed by one number for each admissible triple of degrees, which multiplies the
same coupling tensor. Clebsch-Gordan products keep every path apart; Gaunt, curl, matrix and
vector-signal products add all paths of a degree up, and are cheaper for it.
"""

from equigeo.tensor_products.channelwise_tensor_product import ChannelwiseTensorProduct
from equigeo.tensor_products.elementwise_tensor_product import ElementwiseTensorProduct
from equigeo.tensor_products.full_tensor_product import FullTensorProduct
from equigeo.tensor_products.fully_connected_tensor_product import FullyConnectedTensorProduct
from equigeo.tensor_products.instruction import Instruction
from equigeo.tensor_products.product import Product
from equigeo.tensor_products.tensor_product import TensorProduct

__all__ = [
    "ChannelwiseTensorProduct",
    "ElementwiseTensorProduct",
    "FullTensorProduct",
    "FullyConnectedTensorProduct",
    "Instruction",
    "Product",
    "TensorProduct",
]
