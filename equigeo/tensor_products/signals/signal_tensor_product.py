"""Products of signals as a weighted layer between arbitrary irreps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product as product_of
from typing import Any, Literal, NamedTuple, final

import torch
from torch import Tensor, nn

from equigeo._core.checks import checked_integer
from equigeo._core.tensors import computes_in_float32, plain_tensors
from equigeo.nn import Linear, Tables
from equigeo.nn.module import allow_unreached
from equigeo.nn.state import SavedOptions
from equigeo.nn.tables import IndexTables
from equigeo.reps import Irreps
from equigeo.tensor_products.analysis.coefficients import (
    in_double,
    path_coefficients,
    single_irreps,
)
from equigeo.tensor_products.instructions import kinds, largest_degree, read_operands
from equigeo.tensor_products.products.base import Product
from equigeo.tensor_products.products.channelwise import check_result_reached, linear_multiply_adds
from equigeo.tensor_products.signals.gaunt import CurlTensorProduct, GauntTensorProduct
from equigeo.tensor_products.signals.matrix import MatrixTensorProduct
from equigeo.tensor_products.signals.vector_signals import VectorSignalTensorProduct

Method = Literal["grid", "fourier", "paths"]

_KINDS = ("curl", "gaunt", "matrix", "vector_signal")


@final
class SignalTensorProduct(Product, SavedOptions):
    r"""Multiply several channels of signals between linear layers.

    Features of any irreps are mixed into channels of signals of each value parity, every pair of
    parities is multiplied channel by channel, and the results are mixed into the output:

    .. math:: z = L_Z \bigoplus_{p_1 p_2} s_{p_1 p_2} \odot (L_X x)_{p_1} * (L_Y y)_{p_2}

    The constants :math:`s` scale every component of a product of unit normal signals to unit
    variance. A product of signals has one weight per degree of each operand, in the linear layers;
    more channels add degrees of freedom (see :func:`expressivity`; Xie et al., "The Price of
    Freedom", ICML 2025). Output terms that the product cannot reach are zero, with a
    ``UserWarning``. Equivariant under O(3) for any weights.

    Parameters
    ----------
    irreps_in1, irreps_in2, irreps_out : Irreps or str
        In the layout ``mul_ir``.
    kind : str
        One of "gaunt", "curl", "matrix", "vector_signal", or several joined by "+".
    channels : int, optional
        Signals side by side; by default the largest multiplicity of the output.
    method : {"grid", "fourier", "paths"}, optional
        Of Gaunt products, "grid" by default, and of curl products ("grid" in place of "fourier").
    t : int, optional
        Of the matrix product.

    Examples
    --------
    >>> layer = SignalTensorProduct("0e+1o+2e", "4x0e+4x1o", "4x0e+4x1o+4x1e", "gaunt+curl")
    >>> layer(torch.randn(10, 9), torch.randn(10, 16)).shape
    torch.Size([10, 28])
    """

    def __init__(
        self,
        irreps_in1: Irreps | str,
        irreps_in2: Irreps | str,
        irreps_out: Irreps | str,
        kind: str = "gaunt",
        channels: int | None = None,
        *,
        method: Method | None = None,
        t: int | None = None,
    ) -> None:
        super().__init__(*read_operands(irreps_in1, irreps_in2, irreps_out))
        if channels is None:
            channels = max([1, *(mul for mul, _ in self.irreps_out.simplify().terms)])
        self.channels = channels = checked_integer("channels", channels, 1)
        if not isinstance(kind, str):
            raise TypeError(f"kind must be text, got {kind!r}")
        self.kind = kind
        _check_options(kind, method, t)
        with plain_tensors():  # the measurement reads values
            made = [
                _Part.of(product, self) for product in _candidates(self, kind, method or "grid", t)
            ]
        made = [part for part in made if len(part.position)]
        self.products = nn.ModuleList(part.product for part in made)
        self.products.to(torch.get_default_device())
        self._product_work = channels * sum(part.product.multiply_adds() for part in made)
        self.tables = Tables(**{f"scale{k}": part.scale for k, part in enumerate(made)})
        # A signal that several products read is mixed once.
        signals = (
            list(dict.fromkeys(part.product.irreps_in1 for part in made)),
            list(dict.fromkeys(part.product.irreps_in2 for part in made)),
            [part.irreps_out for part in made],
        )
        self._pairs = [
            (signals[0].index(part.product.irreps_in1), signals[1].index(part.product.irreps_in2))
            for part in made
        ]
        self._sizes = [[signal.dim for signal in side] for side in signals]
        mixed = [  # with channels inside each term
            Irreps([(channels * mul, ir) for signal in side for mul, ir in signal.terms])
            for side in signals
        ]
        check_result_reached(self, mixed[2])
        with allow_unreached():  # signals may hold irreps that the inputs have not
            self.linear1 = Linear(self.irreps_in1, mixed[0])
            self.linear2 = Linear(self.irreps_in2, mixed[1])
            self.linear_out = Linear(mixed[2], self.irreps_out)
        with plain_tensors():
            orders = [_channels_first(side, channels) for side in signals]
            orders[2] = orders[2].argsort()
        self.positions = IndexTables(
            **{f"part{k}": part.position for k, part in enumerate(made)},
            **{"in1": orders[0], "in2": orders[1], "out": orders[2]},
        )

    def multiply_adds(self) -> int:
        linears = self.linear1, self.linear2, self.linear_out
        return self._product_work + sum(linear_multiply_adds(linear) for linear in linears)

    @computes_in_float32
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        batch = self.check_inputs(x, y)
        signals1 = self._signals(self.linear1(x)[..., self.positions["in1"]], self._sizes[0])
        signals2 = self._signals(self.linear2(y)[..., self.positions["in2"]], self._sizes[1])
        parts = [x.new_zeros(*batch, 0)]
        for k, ((i, j), product) in enumerate(zip(self._pairs, self.products, strict=True)):
            z = product(signals1[i], signals2[j])[..., self.positions[f"part{k}"]]
            parts.append((z * self.tables[f"scale{k}", x.dtype]).flatten(-2))
        return self.linear_out(torch.cat(parts, dim=-1)[..., self.positions["out"]])

    def _saved_options(self) -> Mapping[str, Any]:
        matrices = [p.t for p in self.products if isinstance(p, MatrixTensorProduct)]
        return {"kind": self.kind, "channels": self.channels, "t": matrices}

    def _signals(self, x: Tensor, sizes: list[int]) -> list[Tensor]:
        """Split features into signals (..., channels, size)."""
        pieces = x.split([self.channels * size for size in sizes], dim=-1)
        return [
            piece.unflatten(-1, (self.channels, size))
            for piece, size in zip(pieces, sizes, strict=True)
        ]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.kind}, channels={self.channels}"


class _Part(NamedTuple):
    """A product of signals, with the outputs that are requested and not always zero."""

    product: Product
    irreps_out: Irreps
    position: Tensor  # of these irreps on the feature axis
    scale: Tensor  # to unit variance, for inputs whose irreps have that

    @classmethod
    def of(cls, product: Product, layer: Product) -> _Part:
        """Measure the nonzero outputs for the irreps of the inputs of the layer."""
        sides = (product.irreps_in1, layer.irreps_in1), (product.irreps_in2, layer.irreps_in2)
        held = []
        for here, there in sides:
            present = [ir in kinds(there) for ir, _ in single_irreps(here)]
            held.append(torch.tensor(present, dtype=torch.float64))
        squares = path_coefficients(in_double(product)).square()
        # Inputs of unit variance: the variance of an output irrep is the sum of squared
        # coefficients over the pairs that are present, spread over its components.
        variance = torch.einsum("abc,a,b->c", squares, *held).tolist()
        wanted = kinds(layer.irreps_out)
        terms, positions, scales = [], [torch.zeros(0, dtype=torch.int64)], []
        for value, (ir, position) in zip(variance, single_irreps(product.irreps_out), strict=True):
            if value > 0 and ir in wanted:
                terms.append((1, ir))
                positions.append(position)
                scales += [math.sqrt(len(position) / value)] * len(position)
        scale = torch.tensor(scales, dtype=torch.float64)
        return cls(product, Irreps(terms), torch.cat(positions), scale)


def _check_options(kind: str, method: Method | None, t: int | None) -> None:
    """Raise for unknown names and options."""
    names = kind.split("+")
    if not set(names) <= set(_KINDS) or len(set(names)) < len(names):
        known = ", ".join(_KINDS)
        raise ValueError(f'kind must be some of {known}, joined by "+", got {kind!r}')
    if t is not None and "matrix" not in names:
        raise ValueError(f't is for the kind "matrix", not for {kind!r}')
    if method is None:
        return
    if not {"gaunt", "curl"} & set(names):
        raise ValueError(f'method is for the kinds "gaunt" and "curl", not {kind!r}')
    if "gaunt" not in names and method not in ("grid", "paths"):
        raise ValueError(f'method must be "grid" or "paths", got {method!r}')


def _candidates(
    layer: SignalTensorProduct, kind: str, method: Method, t: int | None
) -> Iterator[Product]:
    """Yield products of all pairs of value parities; some need signals of both parities."""
    reps = layer.irreps_in1, layer.irreps_in2, layer.irreps_out
    for name in kind.split("+"):
        if name == "matrix":
            lmax1, lmax2, lmax = map(largest_degree, reps)
            yield MatrixTensorProduct(lmax1, lmax2, min(lmax, lmax1 + lmax2), t, parity="both")
        elif name == "vector_signal":
            # The pseudoscalar alone needs component functions of degree 1, above its own.
            lmax1, lmax2, lmax = (max(largest_degree(rep), (0, -1) in kinds(rep)) for rep in reps)
            yield VectorSignalTensorProduct(lmax1, lmax2, min(lmax, lmax1 + lmax2))
        else:
            product = GauntTensorProduct if name == "gaunt" else CurlTensorProduct
            chosen = "grid" if name == "curl" and method == "fourier" else method
            sides = _degrees(reps[0]).items(), _degrees(reps[1]).items()
            for (parity1, lmax1), (parity2, lmax2) in product_of(*sides):
                lmax = min(largest_degree(reps[2]), lmax1 + lmax2)
                yield product(lmax1, lmax2, lmax, chosen, parity1=parity1, parity2=parity2)


def _degrees(irreps: Irreps) -> dict[int, int]:
    """Return the largest degree of each value parity, the parity of the irrep times (-1)^l."""
    found: dict[int, int] = {}
    for l, p in kinds(irreps):
        parity = p * (-1) ** l
        found[parity] = max(l, found.get(parity, 0))
    return found


def _channels_first(signals: list[Irreps], channels: int) -> Tensor:
    """Return the positions of the same components by signal and channel."""
    orders, start = [torch.zeros(0, dtype=torch.int64)], 0
    for signal in signals:
        blocks = []
        for mul, (l, _) in signal.terms:
            size = channels * mul * (2 * l + 1)
            blocks.append(torch.arange(start, start + size).reshape(channels, -1))
            start += size
        orders.append(torch.cat(blocks, dim=1).flatten())
    return torch.cat(orders)
