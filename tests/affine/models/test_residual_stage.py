"""Residual stages: shortcuts, and a convolution where channels change."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import (
    AffineResNetConfig,
    ConvolutionsConfig,
    GroupConv,
    SeparableGroupConv,
    StagesConfig,
)
from equigeo.affine.models.residual_stage import GroupResidual, ResidualStage, make_group_conv
from equigeo.groups import SO, equidistant_rotations


def test_blocks_add_to_their_input() -> None:
    block = GroupResidual([GroupConv(SO(2), 3, 3, padding=2, bias=False)], "layer")
    torch.nn.init.zeros_(block.convs[0].kernel.network.last.weight)
    x = torch.rand(1, 3, 4, 6, 6)
    torch.testing.assert_close(block(x, equidistant_rotations(4)), x)


@pytest.mark.parametrize("channels", [3, 5])
def test_only_other_channels_need_a_convolution_before_the_blocks(channels: int) -> None:
    config = AffineResNetConfig(2, stages=StagesConfig((5,), (False,), blocks=2, convs=3, size=3))
    stage = ResidualStage(config, channels, 5)
    assert (stage.widen is None) == (channels == 5)
    assert [len(block.convs) for block in stage.blocks] == [3, 3]
    assert stage(torch.rand(2, channels, 4, 6, 6), equidistant_rotations(4)).shape == (
        2,
        5,
        4,
        6,
        6,
    )


@pytest.mark.parametrize(("separable", "kind"), [(True, SeparableGroupConv), (False, GroupConv)])
def test_configuration_chooses_the_convolution(separable: bool, kind: type) -> None:
    config = AffineResNetConfig(2, convolutions=ConvolutionsConfig(separable=separable))
    conv = make_group_conv(config, 3, 4, 5, 2)
    assert type(conv) is kind
    assert (conv.spec.size, conv.spec.centers, conv.padding, conv.bias) == (5, 4, 2, None)
