"""What messages reach is counted by ``tp.expressivity`` as by the maps of the layers themselves."""

from typing import get_args

import pytest
import torch
from torch.func import functional_call, jacrev

from bench import potential_expressivity as bench
from equigeo.graphs import EdgeIndex
from equigeo.potentials import MessagePassingPotential, PotentialConfig
from equigeo.potentials.config import ProductName
from equigeo.potentials.messages import EdgeFeatures

# What C channels reach in the second layer: C^2 for each path with weights of its own; a product of
# signals has C^2 for each degree of both linear layers, and C for each of the direction, but two
# scalings of each channel change nothing.
CLOSED_FORMS = {
    "channelwise": lambda c: 7 * c**2,
    "full": lambda c: 7 * c**2,
    "gaunt": lambda c: 5 * c**2 + 3 * c - 2 * c,
    "curl": lambda c: 2 * c**2,  # two paths, to two degrees
    "gaunt+curl": lambda c: 5 * c**2 + 3 * c - 2 * c + 2 * c**2,
    "matrix": lambda c: 5 * c**2 + 3 * c - 2 * c,
    "vector_signal": lambda c: 9 * c**2,
    "so2": lambda c: 8 * c**2,  # the path through degree 3 of the direction, too
}


def config_of(product, channels):
    return PotentialConfig(
        (1, 6), channels=channels, lmax_edge=2, product=product, radial_hidden=(4,)
    )


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("product", get_args(ProductName))
def test_counts_are_those_of_closed_forms(product, channels):
    first, second = bench.reached(config_of(product, channels))
    assert first["maps"] == first["maps that rotations allow"] == 3 * channels**2
    assert second["maps"] == CLOSED_FORMS[product](channels)
    assert second["maps that rotations allow"] == 10 * channels**2
    assert second["share"] == second["maps"] / (10 * channels**2)


@pytest.mark.parametrize("product", get_args(ProductName))
def test_counts_are_ranks_of_the_layer_of_the_potential(product):
    config = config_of(product, 2)
    torch.manual_seed(0)
    model = MessagePassingPotential(config).double().requires_grad_(False)
    layer = model.layers[1]
    vectors = torch.tensor([[0.3, -0.5, 0.8]]).double().expand(layer.irreps_in.dim, 3)
    features = torch.eye(layer.irreps_in.dim).double()
    each = torch.arange(len(features))
    edges = EdgeIndex.from_edges(torch.stack([each, each]), len(each), len(each))
    lengths = vectors.norm(dim=1)
    radial = model.basis(lengths) * model.envelope(lengths)[:, None]
    edge = EdgeFeatures(edges, vectors, model.harmonics(vectors), radial)
    names = ("mix_in", "messages", "mix_received")
    weights = {
        name: torch.randn_like(value)
        for name, value in layer.named_parameters()
        if name.startswith(names)
    }

    class Send(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name in names:
                setattr(self, name, getattr(layer, name))

        def forward(self):
            return self.mix_received(self.messages(self.mix_in(features), edge))

    slopes = jacrev(lambda weights: functional_call(Send(), weights, ()))(weights)
    jacobian = torch.cat([slope.flatten(2).flatten(0, 1) for slope in slopes.values()], 1)
    assert torch.linalg.matrix_rank(jacobian) == bench.reached(config)[1]["maps"]
