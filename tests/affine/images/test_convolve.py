"""Correlation in any dimension, and how features are packed for it."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from equigeo.affine import GroupConv, KernelSpec, LiftConv
from equigeo.affine.images.convolve import check_features, convolve, pack, unpack
from equigeo.groups import SO, equidistant_rotations
from equigeo.testing import tolerance


def test_circular_padding_is_that_of_a_repeated_image() -> None:
    x = torch.rand(2, 3, 6, 7, dtype=torch.float64)
    kernel = torch.rand(4, 3, 5, 5, dtype=torch.float64)
    tiled = x.repeat(1, 1, 3, 3)[..., 4:14, 5:16]
    expected = F.conv2d(tiled, kernel)
    found = convolve(x, kernel, padding=2, padding_mode="circular")
    torch.testing.assert_close(found, expected, **tolerance(torch.float64, terms=3 * 5 * 5))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_kernels_take_the_type_of_features(n: int) -> None:
    x, kernel = torch.rand(1, 2, *[5] * n), torch.rand(3, 2, *[3] * n, dtype=torch.float64)
    y = convolve(x, kernel)
    assert y.dtype == torch.float32
    assert y.shape == (1, 3, *[3] * n)


def test_packing_is_undone() -> None:
    x = torch.rand(2, 3, 4, 5, 6)
    packed = pack(x)
    assert torch.equal(packed[:, 3:6], x[:, :, 1])  # samples slowest
    assert torch.equal(unpack(packed, 4), x)


def test_features_of_another_shape_are_named() -> None:
    with pytest.raises(ValueError, match=r"must be \(batch, 3, size, size\), got \(1, 2, 5, 5\)"):
        check_features(torch.rand(1, 2, 5, 5), 3, 2, None)


def test_memory_order_is_kept() -> None:
    """Features are stored channels last, so that packing them is free."""
    x, samples = torch.rand(2, 1, 8, 8), equidistant_rotations(6)
    spec = KernelSpec(3)
    features, _ = GroupConv(SO(2), 4, 4, spec)(*LiftConv(SO(2), 1, 4, spec)(x, samples))
    assert features.permute(0, 3, 4, 2, 1).is_contiguous()
