"""Norms of features on a group."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import SampleBatchNorm, SampleLayerNorm
from equigeo.affine.samples.sample_norm import sample_norm
from equigeo.testing import tolerance

CLOSE = tolerance(torch.float64, terms=4 * 5 * 6 * 7)  # numbers of an image


def test_batch_norm_has_one_mean_per_channel() -> None:
    x = torch.randn(3, 4, 5, 6, 7, dtype=torch.float64) * 3 + 2
    y = SampleBatchNorm(4).double()(x)
    moments = [y.mean((0, 2, 3, 4)), y.var((0, 2, 3, 4), unbiased=False)]
    torch.testing.assert_close(moments[0], torch.zeros(4).double(), **CLOSE)
    # The norm adds 1e-5 to a variance of about nine.
    torch.testing.assert_close(moments[1], torch.ones(4).double(), rtol=0, atol=2e-6)
    order = torch.randperm(5)
    shuffled = SampleBatchNorm(4).double()(x[:, :, order])
    torch.testing.assert_close(shuffled, y[:, :, order], **CLOSE)


def test_batch_norm_keeps_the_memory_order() -> None:
    x = torch.rand(2, 5, 6, 3, 4).permute(0, 4, 3, 1, 2)  # channels innermost, then samples
    assert SampleBatchNorm(4)(x).stride() == x.stride()


def test_layer_norm_treats_each_image_by_itself() -> None:
    x = torch.randn(3, 4, 5, 6, 7, dtype=torch.float64)
    y = SampleLayerNorm()(x)
    torch.testing.assert_close(SampleLayerNorm()(x[1:2]), y[1:2], **CLOSE)
    # The norm adds 1e-5 to a variance of one, of which the root changes by half.
    torch.testing.assert_close(SampleLayerNorm()(5 * x), y, rtol=1e-5, atol=0)


def test_unknown_norm_is_named() -> None:
    assert isinstance(sample_norm("batch", 3), SampleBatchNorm)
    assert isinstance(sample_norm("layer", 3), SampleLayerNorm)
    with pytest.raises(ValueError, match="norm must be 'batch' or 'layer', got 'group'"):
        sample_norm("group", 3)  # type: ignore[arg-type]
