"""Modules that hold one product by paths, such as a convolution or a square."""

from __future__ import annotations

from abc import abstractmethod

from equigeo.nn.state import stateless
from equigeo.reps import Representation
from equigeo.tensor_products.products.path_product import PathProduct
from equigeo.tensor_products.products.weighted_paths import WeightedPaths


class HeldProduct(WeightedPaths):
    """Base of modules that own the weights of one product, with the state of that product."""

    @abstractmethod
    def __init__(
        self,
        product: PathProduct,  # without internal weights
        *,
        internal_weights: bool | None = None,  # by default True if weights are shared and exist
        shared_weights: bool,  # whether all samples have the same weights
    ) -> None:
        super().__init__()
        self.product = stateless(product)
        self.irreps_in1, self.irreps_in2 = product.irreps_in1, product.irreps_in2
        self.irreps_out, self.layout = product.irreps_out, product.layout
        self.instructions = product.instructions
        self._set_weights(internal=internal_weights, shared=shared_weights)

    @property
    def rep_out(self) -> Representation:
        """Return the representation of the output."""
        return self.irreps_out

    def multiply_adds(self) -> int:
        """Return the multiply-accumulate operations per sample of the product."""
        return self.product.multiply_adds()

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        return self.product.extra_repr()
