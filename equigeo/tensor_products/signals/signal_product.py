"""Base of products of signals on the sphere."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from equigeo._core.checks import check_tensor, checked_integer
from equigeo._core.tensors import HALF, computes_in_float32, in_float32, plain_tensors
from equigeo.nn.module import IrrepsLayer
from equigeo.nn.tables import IndexTables
from equigeo.reps import Irreps
from equigeo.tensor_products.products.base import Product
from equigeo.tensor_products.reference import as_rows, from_rows
from equigeo.tensor_products.signals.fourier import FourierMethod
from equigeo.tensor_products.signals.methods import GridMethod, PathMethod
from equigeo.tensor_products.sphere.legendre import Basis
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
        return self.body.multiply_adds()

    @computes_in_float32
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        batch = self.check_inputs(x, y)
        if x.dtype in HALF:
            return in_float32(self.forward, [x, y])
        z: Tensor = self.body(as_rows(x, batch), as_rows(y, batch))
        return from_rows(z, batch)


def read_degrees(lmax1: int, lmax2: int, lmax_out: int) -> tuple[int, int, int]:
    """Validate the degrees of a product of signals and return them."""
    named = {"lmax1": lmax1, "lmax2": lmax2, "lmax_out": lmax_out}
    first, second, last = (checked_integer(name, value) for name, value in named.items())
    if min(first, second, last) < 0 or last > first + second:
        raise ValueError(
            "degrees must not be negative, nor lmax_out above lmax1 + lmax2, got "
            f"lmax1={lmax1}, lmax2={lmax2}, lmax_out={lmax_out}"
        )
    return first, second, last


class ChannelSignals:
    """Coefficients of functions on the sphere with one term per degree, such as ``16x0e+16x1o``."""

    def __init__(self, name: str, irreps: Irreps) -> None:  # the name is that of an argument
        self.irreps = irreps
        self.lmax = len(irreps.terms) - 1
        first = irreps.terms[0] if irreps.terms else (0, (0, 1))
        self.channels, (_, self.parity) = first
        want = [(self.channels, (l, self.parity * (-1) ** l)) for l in range(self.lmax + 1)]
        if not want or list(irreps.terms) != want:
            raise ValueError(
                f"{name} must be signals on the sphere with one multiplicity, such as "
                f"8x0e+8x1o+8x2e, got {irreps}"
            )

    def split(self, features: Tensor) -> Tensor:  # (..., irreps.dim)
        """Return signals (..., channels, (lmax + 1)^2), with (l, m) at ``l^2 + l + m``."""
        if self.irreps.layout == "ir_mul":
            return features.unflatten(-1, ((self.lmax + 1) ** 2, self.channels)).mT
        shapes = [(self.channels, 2 * l + 1) for l in range(self.lmax + 1)]
        pieces = features.split([channels * dim for channels, dim in shapes], -1)
        return torch.cat([p.unflatten(-1, s) for p, s in zip(pieces, shapes, strict=True)], -1)

    def join(self, signals: Tensor) -> Tensor:
        """Apply the inverse of :meth:`split`."""
        if self.irreps.layout == "ir_mul":
            return signals.mT.flatten(-2)
        pieces = signals.split([2 * l + 1 for l in range(self.lmax + 1)], -1)
        return torch.cat([piece.flatten(-2) for piece in pieces], -1)


@final
class DegreeWeights(IrrepsLayer):
    """Multiply each degree of a signal by a weight, optionally per channel.

    With one module per input and one for the output of a product without weights, the path of
    degrees l1, l2, l3 has the weight ``w1[l1] w2[l2] w3[l3]``.

    Parameters
    ----------
    lmax : int
        Largest degree of the signal.
    channels : int, optional
        Length of the axis before the coefficients, which then has weights of its own.
    parity : {1, -1}
        Of the values of the signal.

    Attributes
    ----------
    weight : Parameter, (lmax + 1,) or (channels, lmax + 1)
        Initialized to ones.

    Examples
    --------
    >>> weights = DegreeWeights(1)
    >>> _ = weights.weight.data.copy_(torch.tensor([2.0, 3.0]))
    >>> weights(torch.ones(4)).tolist()
    [2.0, 3.0, 3.0, 3.0]
    """

    def __init__(self, lmax: int, channels: int | None = None, *, parity: int = 1) -> None:
        super().__init__()
        lmax = checked_integer("lmax", lmax)
        self.irreps = self.irreps_in = self.irreps_out = Irreps.signal(lmax, parity)
        if channels is not None and (channels := checked_integer("channels", channels)) < 0:
            raise ValueError(f"channels must not be negative, got {channels}")
        self.channels = channels
        shape = (lmax + 1,) if channels is None else (channels, lmax + 1)
        self.weight = nn.Parameter(torch.ones(shape))
        # Of every coefficient of a signal.
        with plain_tensors():
            degree = torch.cat([torch.full((2 * l + 1,), l) for l in range(lmax + 1)])
        self.positions = IndexTables(degree=degree)

    @computes_in_float32
    def forward(self, x: Tensor) -> Tensor:
        """Scale signals (..., (lmax + 1)^2) or (..., channels, (lmax + 1)^2)."""
        check_tensor("x", x)
        axes = (self.irreps.dim,) if self.channels is None else (self.channels, self.irreps.dim)
        if x.dtype != self.weight.dtype:
            raise TypeError(f"x must have the dtype of weight, {self.weight.dtype}, got {x.dtype}")
        if x.shape[-len(axes) :] != axes:
            expected = ", ".join(map(str, ("...", *axes)))
            raise ValueError(f"x must be ({expected}), got {tuple(x.shape)}")
        return x * self.weight[..., self.positions["degree"]]

    def extra_repr(self) -> str:
        return f"{self.irreps}, channels={self.channels}"
