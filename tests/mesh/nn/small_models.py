"""Meshes and fitted models that the tests of both networks share."""

import torch

from equigeo.groups import Affine, O
from equigeo.mesh import PrimalDualGraph
from equigeo.mesh.nn.mesh_model import MeshModel
from equigeo.reps import Trivial
from equigeo.testing import assert_equivariant, equivariance_error
from tests.mesh import shapes

SCARCE = {
    "one triangle": shapes.triangle(),
    "two isolated faces": shapes.two_isolated(),
    "one pair": shapes.two_faces(1.0),
    "a pillow": shapes.pillow(),
    "a tetrahedron": shapes.tetrahedron(),
}


def chiral():
    """Closed, without any mirror symmetry."""
    return shapes.lumpy(shapes.icosphere(1), seed=3)


def training_meshes():
    several = [chiral(), shapes.bowl(), shapes.lumpy(shapes.torus()), shapes.random_hull(0, 30)]
    return [shapes.turned(shape, seed) for seed, shape in enumerate(several)]


def trained(network: type[MeshModel], config, seed: int = 0) -> MeshModel:
    """A model whose statistics and weights are those of no special moment."""
    torch.manual_seed(seed)
    model = network(config).double()
    graphs = [model.graph(shape) for shape in training_meshes()[:2]]
    model.fit_standardization(graphs)
    model.train()
    for _ in range(3):  # running statistics
        model(PrimalDualGraph.batch(graphs))
    return model.eval()


def outputs(model: MeshModel):
    return lambda shape: model(model.graph(shape)).detach()


def assert_invariant(model: MeshModel, channels: int, condition: float, shape=None) -> None:
    """Outputs do not change with motions and reflections."""
    rep_out, inputs = Trivial(Affine(O(3)), channels), [shape or chiral()]
    assert_equivariant(outputs(model), rep_out=rep_out, inputs=inputs, condition=condition)


def assert_invariant_to_motions_alone(model: MeshModel, channels: int, condition: float) -> None:
    """Outputs do not change with motions, and do with reflections."""
    law = {"rep_out": Trivial(Affine(O(3)), channels), "inputs": [chiral()]}
    assert equivariance_error(outputs(model), **law) > 1e-3
    motions = Affine(O(3)).testing_elements(torch.Generator().manual_seed(0))
    motions = motions[torch.linalg.det(motions) > 0]
    assert_equivariant(outputs(model), **law, elements=motions, condition=condition)


def assert_finite(model: MeshModel, *tensors: torch.Tensor) -> None:
    """Given tensors, gradients and buffers of a model are finite numbers."""
    named = {f"gradient of {name}": p.grad for name, p in model.named_parameters()}
    named |= dict(model.named_buffers()) | {f"tensor {k}": x for k, x in enumerate(tensors)}
    for name, values in named.items():
        assert values is None or bool(torch.isfinite(values).all()), name


def missed(model: MeshModel) -> dict[str, int]:
    """Parameters without a gradient other than zero, by size."""
    alive = {n for n, p in model.named_parameters() if p.grad is not None and bool(p.grad.any())}
    return {n: p.numel() for n, p in model.named_parameters() if n not in alive}
