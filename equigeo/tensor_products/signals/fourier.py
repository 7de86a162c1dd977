"""A product of signals as a convolution of Fourier coefficients."""

from __future__ import annotations

import math
from typing import final

import scipy
import torch
from torch import Tensor, nn

from equigeo._core.tensors import plain_tensors
from equigeo.nn import Tables
from equigeo.nn.tables import IndexTables
from equigeo.tensor_products.signals.methods import degree_scales
from equigeo.tensor_products.sphere.legendre import Basis, meridian_factors


@final
class FourierMethod(nn.Module):
    """Convolve both signals as Fourier series on the torus by fast transforms."""

    # The polar angle is continued to a full turn, where harmonics are trigonometric polynomials. A
    # harmonic of order m has frequency m along a parallel; along a meridian, series of even orders
    # are real and of odd orders imaginary, so tables are real.
    def __init__(self, lmax1: int, lmax2: int, lmax_out: int, basis: Basis) -> None:
        super().__init__()
        # The product of polynomials of these degrees.
        band = lmax1 + lmax2
        # Aliases along a parallel are harmless on orders above lmax_out, which are not read.
        self._size = (
            int(scipy.fft.next_fast_len(2 * band + 1)),
            int(scipy.fft.next_fast_len(band + lmax_out + 1, real=True)),
        )
        self.first = _ToFourier(lmax1, self._size[0], basis)
        self.second = _ToFourier(lmax2, self._size[0], basis)
        self.out = _FromFourier(lmax_out, band, basis)

    def multiply_adds(self) -> int:
        """Return nonzeros of conversions plus half of the operations of the fast transforms."""
        points = math.prod(self._size)
        # Half of 2.5 n log2 n, for a multiply-accumulate operation counts as two.
        transform = round(1.25 * points * math.log2(points))
        conversions = sum(part.work for part in (self.first, self.second, self.out))
        return conversions + 3 * transform + points

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Transform both signals to the torus, multiply, and transform back."""
        if x.shape[0] == 0:  # for which the transforms of MKL raise
            return (x[:, :1] * y[:, :1]).expand(-1, self.out.positions["orders"].shape[0])
        values = [
            torch.fft.irfft2(series, s=self._size, norm="forward")
            for series in (self.first(x), self.second(y))
        ]
        return self.out(torch.fft.rfft2(values[0] * values[1], norm="forward"))


class _ToFourier(nn.Module):
    """Map coefficients to Fourier series, (samples, meridian and parallel frequencies)."""

    def __init__(self, lmax: int, size: int, basis: Basis) -> None:
        super().__init__()
        with plain_tensors():
            degree = torch.arange(lmax + 1)
            order = degree[:, None]
            center = degree * degree + degree
            # exp(iva) takes (x_v - i x_-v) / 2; a factor i at odd orders swaps the parts.
            own, other = center + order, center - order
            odd = (order % 2 == 1).expand_as(own)
            position = torch.stack([torch.where(odd, other, own), torch.where(odd, own, other)], 1)
            sign = torch.tensor([[0.5, 0.5 * (1 if v % 2 else -1)] for v in range(lmax + 1)])
            sign[0] = torch.tensor([1.0, 0.0])
            # Degrees below the order do not exist; the table is zero there.
            position = position * (degree >= order)[:, None]
            table = meridian_series(lmax, basis)
            self.work = _work(table)
            padded = torch.zeros(lmax + 1, lmax + 1, size, dtype=torch.float64)
            padded[..., torch.arange(-lmax, lmax + 1)] = table
        self.positions = IndexTables(parts=position)
        self.tables = Tables(series=padded, sign=sign.double()[..., None])

    def forward(self, x: Tensor) -> Tensor:
        # (samples, orders, 2, degrees)
        parts = x[:, self.positions["parts"]] * self.tables["sign", x.dtype]
        samples, orders, two, degrees = parts.shape
        rows = parts.transpose(0, 1).reshape(orders, samples * two, degrees)
        series = (rows @ self.tables["series", x.dtype]).unflatten(1, (samples, two))
        return torch.complex(series[:, :, 0], series[:, :, 1]).permute(1, 2, 0)


class _FromFourier(nn.Module):
    """Map Fourier series (samples, meridian and parallel frequencies) to coefficients."""

    def __init__(self, lmax: int, band: int, basis: Basis) -> None:
        super().__init__()
        with plain_tensors():
            degree = torch.arange(lmax + 1).repeat_interleave(2 * torch.arange(lmax + 1) + 1)
            order = torch.arange(len(degree)) - degree * degree - degree
            odd, sine = order.abs() % 2, (order < 0).long()
            # At even orders v reads the real part and -v minus the imaginary one; at odd orders v
            # reads minus the imaginary and -v minus the real one.
            position = (2 * order.abs() + (sine ^ odd)) * (lmax + 1) + degree
            sign = 1 - 2 * (sine | odd)
            frequencies = torch.arange(band + 1)[:, None] + torch.arange(-lmax, lmax + 1)
            series = meridian_series(lmax, "component") @ half_turn_integral(frequencies).mT
            series[..., 1:] *= 2  # negative frequencies are those of the mirror image
            self.work = _work(series)
            self._shape = lmax + 1, band + 1
            scale = sign / (2 * degree_scales(len(degree), basis))
        self.positions = IndexTables(orders=position)
        self.tables = Tables(series=series.mT.contiguous(), scale=scale)

    def forward(self, series: Tensor) -> Tensor:
        orders, frequencies = self._shape
        parts = torch.view_as_real(series[:, :frequencies, :orders]).permute(2, 0, 3, 1)
        _, samples, two, _ = parts.shape
        rows = parts.reshape(orders, samples * two, frequencies)
        by_order = (rows @ self.tables["series", rows.dtype]).unflatten(1, (samples, two))
        by_order = by_order.transpose(0, 1).flatten(1)  # (samples, orders x 2 x degrees)
        return by_order[:, self.positions["orders"]] * self.tables["scale", rows.dtype]


def _work(table: Tensor) -> int:
    """Return the multiply-adds of a conversion, which has two parts for each order but zero."""
    return int(2 * table.count_nonzero() - table[0].count_nonzero())


def meridian_series(
    lmax: int, basis: Basis
) -> Tensor:  # (order v, degree l, frequency -lmax ... lmax), float64
    """Return the exact Fourier coefficients t of the harmonics along a meridian."""
    # Theta_lv(b) = i^(v mod 2) sum_u t_vlu e^(iub)
    # Samples over the full turn, on which harmonics continue as trigonometric polynomials.
    size = 2 * lmax + 1
    angle = 2 * torch.pi * torch.arange(size, dtype=torch.float64) / size
    value = meridian_factors(lmax, angle)[0] * degree_scales((lmax + 1) ** 2, basis)[:, None]
    degree = torch.arange(lmax + 1)
    order = degree[:, None]
    samples = value[degree * degree + degree + order.minimum(degree)] * (order <= degree)[..., None]
    series = torch.fft.fftshift(torch.fft.fft(samples, norm="forward"), -1)
    table = torch.where((order % 2 == 1)[..., None], series.imag, series.real)
    # What cannot be there is rounding.
    frequency = torch.arange(-lmax, lmax + 1)
    there = (frequency.abs() <= degree[:, None]) & ((frequency + degree[:, None]) % 2 == 0)
    there = there & ((frequency != 0) | (order % 2 == 0)[..., None])
    return table * there


def half_turn_integral(k: Tensor) -> Tensor:
    """Return the real part of the integral of exp(ikb) sin b over [0, pi], zero for odd k."""
    # 2 / (1 - k^2) for even k; for odd k the integral is imaginary or zero.
    even = k % 2 == 0
    return torch.where(even, 2 / (1 - (k * even).double() ** 2), 0.0)
