from __future__ import annotations

import pytest
import torch

from equigeo import nn
from equigeo.nn.irreps_layer import IrrepsLayer
from equigeo.tensor_products import DegreeWeights, SphericalHarmonics

LAYERS = {
    "linear": lambda: nn.Linear("2x0e + 1x1o", "3x1o"),
    "activation": lambda: nn.Activation("2x0e", [torch.tanh]),
    "gate": lambda: nn.Gate("2x0e", [torch.tanh], "1x0e", [torch.sigmoid], "1x1o"),
    "harmonics": lambda: SphericalHarmonics("0e + 1o", normalize=True),
    "degree weights": lambda: DegreeWeights(2),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_representations_are_those_of_the_irreps(make):
    layer = make()
    assert isinstance(layer, IrrepsLayer)
    assert layer.rep_in is layer.irreps_in
    assert layer.rep_out is layer.irreps_out
    assert layer(torch.randn(3, layer.rep_in.dim)).shape == (3, layer.rep_out.dim)


def test_the_base_sets_nothing():
    with pytest.raises(AttributeError):
        _ = IrrepsLayer().rep_in
