"""The separable layer is the full one with a product of kernels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from equigeo.affine import GroupConv, KernelSpec, SeparableGroupConv, WindowWarning
from equigeo.groups import GLPlus
from equigeo.testing import tolerance
from tests.affine.images.test_group_conv import quadrature


@pytest.mark.parametrize("spatial", ["depthwise", "dense"])
def test_separable_is_the_full_layer_with_a_product_kernel(spatial: str) -> None:
    samples = quadrature(GLPlus(2), 0.4, 2, 3)
    outputs = samples.select(torch.arange(3))
    x = torch.rand(2, 3, len(samples), 7, 7, dtype=torch.float64)
    spec = KernelSpec(3)
    layer = SeparableGroupConv(GLPlus(2), 3, 4, spec, spatial=spatial, bias=False).double()
    full = GroupConv(GLPlus(2), 3, 4, spec, bias=False).double()
    full.kernel = _Product(layer)
    with pytest.warns(WindowWarning):
        values = [conv(x, samples, outputs)[0] for conv in (layer, full)]
    torch.testing.assert_close(*values, **tolerance(torch.float64, terms=3 * 12 * 9))


class _Product(nn.Module):
    """The product of both parts of a separable layer, as one kernel."""

    def __init__(self, layer: SeparableGroupConv) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, u: Tensor, s: Tensor) -> Tensor:
        group = self.layer.group_kernel(s=s).unflatten(-1, (4, 3))
        space = self.layer.spatial_kernel(u).unflatten(-1, (4, -1))
        if self.layer.spatial == "depthwise":
            return (space * group).flatten(-2)
        return (space @ group).flatten(-2)


def test_unknown_spatial_part_is_named() -> None:
    with pytest.raises(ValueError, match="spatial must be"):
        SeparableGroupConv(GLPlus(2), 1, 1, spatial="wide")  # type: ignore[arg-type]
