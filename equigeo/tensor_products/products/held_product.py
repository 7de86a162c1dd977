"""Modules that hold one product by paths and are none: a convolution, a square."""

from __future__ import annotations

from abc import abstractmethod

from equigeo.nn.state import stateless
from equigeo.reps import Representation
from equigeo.tensor_products.products.path_product import PathProduct
from equigeo.tensor_products.products.weighted_paths import WeightedPaths


class HeldProduct(WeightedPaths):
    """A module around one product, whose weights it owns in place of the product.

    The state of the module is what the product's would be, so that either loads that of the other.

    Parameters
    ----------
    product : PathProduct
        Without internal weights.
    internal_weights : bool, optional
        Whether the module owns weights; by default where they are shared and there are any.
    shared_weights : bool
        Whether all samples have the same weights.

    Attributes
    ----------
    product : PathProduct
        As given; its buffers are no part of the state.
    irreps_in1, irreps_in2, irreps_out, instructions, layout
        Those of the product.
    """

    @abstractmethod
    def __init__(
        self, product: PathProduct, *, internal_weights: bool | None = None, shared_weights: bool
    ) -> None:
        super().__init__()
        self.product = stateless(product)
        self.irreps_in1, self.irreps_in2 = product.irreps_in1, product.irreps_in2
        self.irreps_out, self.layout = product.irreps_out, product.layout
        self.instructions = product.instructions
        self._set_weights(internal=internal_weights, shared=shared_weights)

    @property
    def rep_out(self) -> Representation:
        """Representation of the output."""
        return self.irreps_out

    def multiply_adds(self) -> int:
        """Count multiply-accumulate operations, for one sample of the product.

        Returns
        -------
        int
            Of the product as implemented.
        """
        return self.product.multiply_adds()

    def extra_repr(self) -> str:
        """Return what ``print(module)`` shows."""
        return self.product.extra_repr()
