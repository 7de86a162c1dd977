"""What tests of products of signals share."""

import torch
from torch import Tensor

from equigeo.reps import wigner_3j
from equigeo.tensor_products import SphereGrid
from equigeo.tensor_products.signals.signal_product import SignalProduct

_STEPS = torch.arange(1, 10, dtype=torch.float64)
SINES, COSINES = _STEPS.sin(), (2 * _STEPS).cos()
"""Signals up to degree 2 of which results are published; up to degree 1 the first four entries."""


def signal(lmax: int, *batch: int, name: str = "x", dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(sum(map(ord, name)) + lmax)
    return torch.randn(*batch, (lmax + 1) ** 2, dtype=dtype, generator=generator)


def signals(
    product: SignalProduct, *batch: int, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    return [
        signal(lmax, *batch, name=name, dtype=dtype)
        for name, lmax in (("x", product.lmax1), ("y", product.lmax2))
    ]


def block(l: int) -> slice:
    """Where a degree stands in a signal."""
    return slice(l * l, (l + 1) ** 2)


def couple(l1: int, l2: int, l3: int, x: Tensor, y: Tensor) -> Tensor:
    """Apply the coupling tensor to the degrees of two signals."""
    return torch.einsum(
        "ijk,...i,...j->...k", wigner_3j(l1, l2, l3), x[..., block(l1)], y[..., block(l2)]
    )


def close(got: Tensor, want: Tensor, bound: float) -> bool:
    """Whether the largest deviation is small beside the largest entry."""
    return bool((got - want).abs().max() <= bound * want.abs().max())


def fejer(latitudes: int, longitudes: int) -> SphereGrid:
    """Equally spaced polar angles, the grid of e3nn: Fejer's first rule."""
    polar = torch.pi * (torch.arange(latitudes, dtype=torch.float64) + 0.5) / latitudes
    k = torch.arange(1, latitudes // 2 + 1, dtype=torch.float64)[:, None]
    series = ((2 * k * polar).cos() / (4 * k * k - 1)).sum(0)
    degree = min(latitudes, longitudes) - 1
    return SphereGrid(polar, 2 / latitudes * (1 - 2 * series), longitudes, degree)
