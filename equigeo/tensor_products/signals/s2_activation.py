"""A function applied to the values of functions on the sphere."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import silu

from equigeo._core.tensors import computes_in_float32, rounded_once
from equigeo.nn import Tables
from equigeo.nn.activation import Function, normalized, parity_after
from equigeo.nn.module import IrrepsLayer, IrrepsLike, irreps_argument
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.signals.gaunt import GauntTensorProduct
from equigeo.tensor_products.signals.methods import Factors, analysis, resolve_grid, synthesis
from equigeo.tensor_products.signals.signal_product import ChannelSignals
from equigeo.tensor_products.sphere.sphere_grid import SphereGrid

# Degree to which the default grid is exact, in multiples of lmax.
_EXACTNESS = 6


@final
class S2Activation(IrrepsLayer):
    r"""Apply a function to the values of functions on a grid of the sphere and transform back.

    .. math:: z_{lm} = \sqrt{L + 1}\, (2 l + 1) \int_{S^2} \phi(f(r))\, Y_{lm}(r)\, dr / 4 \pi,
        \qquad f = \frac{1}{\sqrt{L + 1}} \sum_{lm} x_{lm} Y_{lm}

    with harmonics of the normalization ``"norm"``, so that standard normal features have values of
    variance one: as ``e3nn.nn.S2Activation``, channel by channel (Cohen et al., "Spherical CNNs",
    2018; Zitnick et al., "Spherical Channels", 2022).

    **It is only approximately equivariant** under O(3): :math:`\phi(f)` has all degrees, and the
    grid aliases those above its exactness. For SiLU and standard normal features the largest error
    relative to the largest component of the result is

    ==================== ===== ===== ===== =====
    grid exact to degree L=1   L=2   L=4   L=6
    ==================== ===== ===== ===== =====
    2 L                  4e-1  6e-1  4e-1  4e-1
    4 L                  2e-2  2e-2  8e-3  1e-2
    6 L, the default     1e-3  1e-3  5e-4  3e-4
    8 L                  1e-4  1e-4  3e-5  2e-5
    ==================== ===== ===== ===== =====

    For functions with kinks, such as ReLU, it falls slowly. :class:`S2SwiGLU` and
    :class:`equigeo.nn.Gate` are exact.

    Parameters
    ----------
    irreps : Irreps, e3nn.o3.Irreps or str
        Functions side by side, such as ``16x0e+16x1o+16x2e``; with reversed parities if their
        values are pseudoscalars.
    act : callable
        Scaled by :class:`equigeo.nn.NormalizedActivation`; even or odd for pseudoscalar values.
    grid : SphereGrid or (int, int), optional
        Or numbers of Gauss-Legendre latitudes and of longitudes.
    layout : {"mul_ir", "ir_mul"}

    Examples
    --------
    >>> import torch
    >>> layer = S2Activation("8x0e + 8x1o + 8x2e", torch.nn.functional.silu)
    >>> layer(torch.zeros(5, 72)).shape
    torch.Size([5, 72])
    """

    def __init__(
        self,
        irreps: IrrepsLike,
        act: Function,
        *,
        grid: SphereGrid | tuple[int, int] | None = None,
        layout: Layout = "mul_ir",
    ) -> None:
        super().__init__()
        self.irreps_in = irreps_argument("irreps", irreps, layout)
        self._signals = signals = ChannelSignals("irreps", self.irreps_in)
        self.act = normalized(act)
        parity = parity_after(1, 0, signals.parity, self.act)
        terms = [(signals.channels, (l, parity * (-1) ** l)) for l in range(signals.lmax + 1)]
        self.irreps_out = Irreps(terms, layout)
        lmax, scale = signals.lmax, math.sqrt(signals.lmax + 1)
        self.grid = grid = resolve_grid(grid, 0, default=_EXACTNESS * lmax)
        self.tables = Tables(
            to_grid=_all_points(synthesis(grid.harmonics(lmax), "norm")) / scale,
            from_grid=_all_points(analysis(grid, lmax, "norm")).mT.contiguous() * scale,
        )

    @computes_in_float32
    def forward(self, features: Tensor) -> Tensor:
        """Apply the function to ``features`` (..., irreps_in.dim)."""
        self.irreps_in.check_features(features)
        return rounded_once(self._apply_on_grid, [features])

    def _apply_on_grid(self, features: Tensor) -> Tensor:
        values = self._signals.split(features) @ self.tables["to_grid", features.dtype]
        return self._signals.join(self.act(values) @ self.tables["from_grid", features.dtype])

    def extra_repr(self) -> str:
        return f"{super().extra_repr()} | {self.grid.latitudes} x {self.grid.longitudes} points"


def _all_points(factors: Factors) -> Tensor:
    """Return one matrix (coefficients, points) of the factors along meridians and parallels."""
    (legendre,), (trig,) = factors
    lmax = math.isqrt(len(legendre)) - 1
    order = [lmax + m for l in range(lmax + 1) for m in range(-l, l + 1)]
    return (legendre[:, :, None] * trig[order][:, None]).flatten(1)


@final
class S2SwiGLU(IrrepsLayer):
    r"""Products of two functions on the sphere, gated by scalars, as in EquiformerV3.

    .. math:: z = \sigma(t)\, (p \cdot q) + \mathrm{SiLU}(s_1)\, s_2\, \delta_{l0}

    channel by channel (Liao et al., "EquiformerV3", 2026). :math:`p \cdot q` are the coefficients,
    up to the degree L of the operands, of the pointwise product of the functions :math:`\sum_{lm}
    p_{lm} Y_{lm} / \sqrt{L + 1}` with harmonics of the normalization ``"norm"``. The product is a
    :class:`GauntTensorProduct`, so that the layer is exactly equivariant under O(3).

    Parameters
    ----------
    irreps_out : Irreps, e3nn.o3.Irreps or str
        Functions with true scalars as values side by side, such as ``16x0e+16x1o+16x2e``.
    layout : {"mul_ir", "ir_mul"}
        Of both sides.

    Attributes
    ----------
    irreps_in : Irreps
        For C channels ``5C x 0e``, which are :math:`s_1, s_2, t, p, q`, and then
        ``2C x 1o + 2C x 2e + ...``, which are :math:`p, q`.

    Examples
    --------
    >>> layer = S2SwiGLU("8x0e + 8x1o + 8x2e")
    >>> str(layer.irreps_in), layer(torch.zeros(5, 168)).shape
    ('40x0e+16x1o+16x2e', torch.Size([5, 72]))
    """

    def __init__(self, irreps_out: IrrepsLike, *, layout: Layout = "mul_ir") -> None:
        super().__init__()
        self.irreps_out = irreps_argument("irreps_out", irreps_out, layout)
        self._out = ChannelSignals("irreps_out", self.irreps_out)
        if self._out.parity != 1:
            raise ValueError(f"irreps_out must have scalars 0e, got {self.irreps_out}")
        channels, lmax = self._out.channels, self._out.lmax
        pairs = [(2 * channels, ir) for _, ir in self.irreps_out]
        self._pairs = ChannelSignals("irreps_out", Irreps(pairs, layout))
        self.irreps_in = Irreps([(5 * channels, (0, 1)), *pairs[1:]], layout)
        self.product = GauntTensorProduct(lmax, lmax, lmax, basis="norm")

    @computes_in_float32
    def forward(self, features: Tensor) -> Tensor:
        """Map ``features`` (..., irreps_in.dim) to (..., irreps_out.dim)."""
        self.irreps_in.check_features(features)
        return rounded_once(self._multiply, [features])

    def _multiply(self, features: Tensor) -> Tensor:
        channels, lmax = self._out.channels, self._out.lmax
        scalars, pairs = features.tensor_split([3 * channels], -1)
        first, second, switch = scalars.unflatten(-1, (3, channels)).unbind(-2)
        p, q = self._pairs.split(pairs).unflatten(-2, (2, channels)).unbind(-3)
        # (p / s)(q / s) = z / s with s = sqrt(L + 1), so that z is the product over s.
        product = self.product(p, q) * (switch.sigmoid() / math.sqrt(lmax + 1))[..., None]
        scalar = product[..., :1] + (silu(first) * second)[..., None]
        return self._out.join(torch.cat([scalar, product[..., 1:]], -1))
