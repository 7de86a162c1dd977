"""Base of products of signals on the sphere."""

from __future__ import annotations

from abc import abstractmethod
from typing import cast

from torch import Tensor

from equigeo._integers import checked_integer
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.storage import HALF, in_float32
from equigeo.reps import Irreps
from equigeo.tensor_products.paths.leading_axes import as_rows, from_rows
from equigeo.tensor_products.products.product import Product
from equigeo.tensor_products.signals.signal_method import SignalMethod
from equigeo.tensor_products.sphere.basis import Basis


class SignalProduct(Product):
    """Base of products of two functions on the sphere, given and returned as coefficients.

    Subclasses set ``body``, a module that multiplies two batches of coefficients and counts its
    work, and define :meth:`coefficient`. ``parities`` are those of the values of both functions and
    of their product, 1 or -1.

    Examples
    --------
    >>> from equigeo.tensor_products import GauntTensorProduct
    >>> product = GauntTensorProduct(1, 1, 2)
    >>> isinstance(product, SignalProduct), str(product.irreps_in1), str(product.irreps_out)
    (True, '1x0e+1x1o', '1x0e+1x1o+1x2e')
    """

    body: SignalMethod

    def __init__(
        self,
        lmax1: int,
        lmax2: int,
        lmax_out: int,
        basis: Basis,
        *,
        parities: tuple[int, int, int],
    ) -> None:
        degrees = read_degrees(lmax1, lmax2, lmax_out)
        for name, parity in zip(("parity1", "parity2"), parities[:2], strict=True):
            if parity not in (1, -1):
                raise ValueError(f"{name} must be 1 or -1, got {parity!r}")
        super().__init__(*map(Irreps.signal, degrees, parities))
        self.lmax1, self.lmax2, self.lmax_out = degrees
        self.basis = basis

    @abstractmethod
    def coefficient(self, l1: int, l2: int, l3: int) -> float:
        """Return the closed-form coefficient of ``wigner_3j`` of unit norm, zero without a path."""

    def multiply_adds(self) -> int:
        """Return the count of the chosen method."""
        return self.body.multiply_adds()

    @computes_in_float32
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Multiply two signals, of dtype float32 or float64."""
        batch = self.check_inputs(x, y)
        if x.dtype in HALF:
            return cast(Tensor, in_float32(self.forward, [x, y]))
        z: Tensor = self.body(as_rows(x, batch), as_rows(y, batch))
        return from_rows(z, batch)


def read_degrees(lmax1: int, lmax2: int, lmax_out: int) -> tuple[int, int, int]:
    """Validate the degrees of a product of signals and return them."""
    named = {"lmax1": lmax1, "lmax2": lmax2, "lmax_out": lmax_out}
    first, second, last = (checked_integer(name, value) for name, value in named.items())
    degrees = first, second, last
    if min(degrees) < 0 or degrees[2] > degrees[0] + degrees[1]:
        raise ValueError(
            "degrees must not be negative, nor lmax_out above lmax1 + lmax2, got "
            f"lmax1={lmax1}, lmax2={lmax2}, lmax_out={lmax_out}"
        )
    return degrees
