"""SwiGLU for functions on the sphere, equivariant without error."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import silu

from equigeo.nn._irreps_argument import IrrepsLike, irreps_argument
from equigeo.nn.irreps_layer import IrrepsLayer
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.storage import rounded_once
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.signals.channel_signals import ChannelSignals
from equigeo.tensor_products.signals.gaunt_tensor_product import GauntTensorProduct


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
        out: Tensor = rounded_once(self._multiply, [features])
        return out

    def _multiply(self, features: Tensor) -> Tensor:
        channels, lmax = self._out.channels, self._out.lmax
        scalars, pairs = features.tensor_split([3 * channels], -1)
        first, second, switch = scalars.unflatten(-1, (3, channels)).unbind(-2)
        p, q = self._pairs.split(pairs).unflatten(-2, (2, channels)).unbind(-3)
        # (p / s)(q / s) = z / s with s = sqrt(L + 1), so that z is the product over s.
        product = self.product(p, q) * (switch.sigmoid() / math.sqrt(lmax + 1))[..., None]
        scalar = product[..., :1] + (silu(first) * second)[..., None]
        return self._out.join(torch.cat([scalar, product[..., 1:]], -1))

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        return f"{self.irreps_in} -> {self.irreps_out}"
