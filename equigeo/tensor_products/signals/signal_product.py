"""Base of products of signals on the sphere."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, cast

from torch import Tensor

from equigeo._integers import checked_integer
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.storage import HALF, in_float32
from equigeo.reps import Irreps
from equigeo.tensor_products.paths.leading_axes import as_rows, from_rows
from equigeo.tensor_products.products.product import Product
from equigeo.tensor_products.signals.fourier_method import FourierMethod
from equigeo.tensor_products.signals.grid_method import GridMethod
from equigeo.tensor_products.signals.path_method import PathMethod
from equigeo.tensor_products.sphere.basis import Basis
from equigeo.tensor_products.sphere.sphere_grid import SphereGrid

Grid = SphereGrid | tuple[int, int] | None


class SignalProduct(Product):
    """Base of products of two functions on the sphere, given and returned as coefficients."""

    methods: ClassVar[tuple[str, ...]]
    sign: ClassVar[int]  # value parity of the output relative to the product of both inputs
    coupling: ClassVar[Callable[..., float]]  # of three degrees and a basis

    def __init__(
        self,
        lmax1: int,
        lmax2: int,
        lmax_out: int,
        method: str = "grid",
        basis: Basis = "component",
        *,
        parity1: int = 1,
        parity2: int = 1,
        grid: Grid = None,
    ) -> None:
        degrees = read_degrees(lmax1, lmax2, lmax_out)
        for name, parity in (("parity1", parity1), ("parity2", parity2)):
            if parity not in (1, -1):
                raise ValueError(f"{name} must be 1 or -1, got {parity!r}")
        parities = parity1, parity2, self.sign * parity1 * parity2
        super().__init__(*map(Irreps.signal, degrees, parities))
        self.lmax1, self.lmax2, self.lmax_out = degrees
        self.basis = basis
        if method not in self.methods:
            *first, last = (f'"{name}"' for name in self.methods)
            raise ValueError(f"method must be {', '.join(first)} or {last}, got {method!r}")
        if grid is not None and method != "grid":
            raise ValueError(f'grid is for the method "grid", not for {method!r}')
        self.method = method
        bodies: dict[str, Callable[[], Any]] = {
            "paths": lambda: PathMethod(*degrees, coupling=partial(self.coupling, basis=basis)),
            "fourier": lambda: FourierMethod(*degrees, basis=basis),
            "grid": lambda: self._on_grid(grid),
        }
        self.body = bodies[method]()

    @abstractmethod
    def _on_grid(self, grid: Grid) -> GridMethod:
        """Return the evaluation on a grid."""

    def coefficient(self, l1: int, l2: int, l3: int) -> float:
        """Return the strength of a path, the coefficient of ``wigner_3j`` of unit norm."""
        return self.coupling(l1, l2, l3, self.basis)

    def multiply_adds(self) -> int:
        """Return the count of the chosen method."""
        count: int = self.body.multiply_adds()
        return count

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
