"""What messages reach is counted by ``tp.expressivity`` as by the maps of the layers themselves."""

from typing import get_args

import pytest
import torch
from torch.func import functional_call, jacrev

from bench import potential_expressivity as bench
from equigeo.graphs import EdgeIndex
from equigeo.potentials import MessagePassingPotential, PotentialConfig
from equigeo.potentials.config import ProductName
from equigeo.potentials.interaction import EdgeFeatures


@pytest.mark.parametrize("product", get_args(ProductName))
def test_counts_are_ranks_of_the_layer_of_the_potential(product):
    sizes = {"channels": 2, "lmax_edge": 2, "radial_hidden": (4,)}
    config = PotentialConfig((1, 6), product=product, **sizes)
    first, second = bench.reached(config)
    assert first["maps"] == first["maps that rotations allow"] == 3 * 2**2
    assert second["maps that rotations allow"] == 10 * 2**2
    assert second["share"] == second["maps"] / (10 * 2**2)
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
    assert torch.linalg.matrix_rank(jacobian) == second["maps"]
