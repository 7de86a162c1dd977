"""Classifiers with vectors or attention keep the laws of the default one."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from bench.mesh_variants import (
    AttentionClassifier,
    VectorBranch,
    VectorClassifier,
    centred_positions,
)
from equigeo.groups import O
from equigeo.mesh import ClassifierConfig, PrimalDualClassifier, PrimalDualGraph, TriangleMesh
from equigeo.reps import Irreps, Trivial
from equigeo.testing import assert_equivariant, tolerance
from tests.mesh import shapes

CONDITION = 2.0**12  # features of geometry are divided by how little they spread
CLOSE = tolerance(torch.float64, terms=80, condition=CONDITION)  # faces of a mesh
CONFIG = ClassifierConfig(3, channels=(8, 8, 8, 8))
Build = Callable[[], PrimalDualClassifier]
BUILDS: dict[str, Build] = {
    "vectors": lambda: VectorClassifier(CONFIG),
    "vectors in one block": lambda: VectorClassifier(CONFIG, branches=1, positions=False),
    "attention": lambda: AttentionClassifier(CONFIG),
    "dilated attention": lambda: AttentionClassifier(CONFIG, hops=(1, 3), blocks=1),
}


def bumpy(seed: int = 0) -> TriangleMesh:
    return shapes.lumpy(shapes.icosphere(1), seed=seed)


def built(name: str) -> PrimalDualClassifier:
    torch.manual_seed(0)
    model = BUILDS[name]().double()
    model.fit_standardization([model.graph(bumpy(seed)) for seed in range(4)])
    return model.eval()


@pytest.mark.parametrize("name", BUILDS)
def test_logits_are_invariant(name: str) -> None:
    model = built(name)
    assert_equivariant(model, rep_out=Trivial(O(3), 3), inputs=[bumpy()], condition=CONDITION)
    mesh = bumpy()
    want = model(mesh)
    moved = TriangleMesh(3 * mesh.vertices - 1, mesh.faces)
    torch.testing.assert_close(model(moved), want, **CLOSE)
    order = torch.randperm(mesh.num_faces, generator=torch.Generator().manual_seed(1))
    permuted = TriangleMesh(mesh.vertices, mesh.faces[order].roll(1, dims=1))
    torch.testing.assert_close(model(permuted), want, **CLOSE)
    assert (model(bumpy(1)) - want).abs().max() > 1e-3


@pytest.mark.parametrize("name", BUILDS)
def test_batches_are_meshes_side_by_side(name: str) -> None:
    model, meshes = built(name), [bumpy(), shapes.torus(), bumpy(1)]
    want = torch.cat([model(mesh) for mesh in meshes])
    torch.testing.assert_close(model(meshes), want, **CLOSE)


@pytest.mark.parametrize("name", BUILDS)
def test_every_parameter_that_reaches_the_logits_learns(name: str) -> None:
    model = built(name).train()
    model([bumpy(), bumpy(1)]).square().sum().backward()
    part = model.branches if isinstance(model, VectorClassifier) else model.attention
    assert isinstance(part, nn.Module)
    without = [
        key for key, p in part.named_parameters() if p.grad is None or not bool(p.grad.any())
    ]
    assert not without


def test_a_branch_turns_with_the_mesh() -> None:
    """Vectors turn and scalars stay, from coordinates; vectors that stay are noticed."""
    torch.manual_seed(0)
    branch = VectorBranch((1, 8), (1, 0)).double().eval()

    def of_mesh(mesh: TriangleMesh) -> tuple[Tensor, ...]:
        graph = PrimalDualGraph.from_mesh(mesh, dtype=torch.float64)
        fields = centred_positions(graph, torch.float64), graph.x_dual[:, :0]
        graph, vectors = branch(graph, fields)
        return graph.x_primal, graph.x_dual, *vectors

    scalars, vectors = (Irreps("0e"), Irreps("8x0e")), (Irreps("4x1o"), Irreps("4x1o"))
    assert_equivariant(of_mesh, rep_out=[*scalars, *vectors], inputs=[bumpy()], condition=256.0)
    wrong = (Irreps("4x1e"), Irreps("4x1o"))
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(of_mesh, rep_out=[*scalars, *wrong], inputs=[bumpy()], condition=256.0)


@pytest.mark.parametrize("name", ["vectors", "attention"])
def test_without_its_last_maps_a_variant_is_the_default(name: str) -> None:
    model, mesh = built(name), bumpy()
    default = PrimalDualClassifier(CONFIG).double().eval()
    default.load_state_dict(
        {key: value for key, value in model.state_dict().items() if key in default.state_dict()}
    )
    assert (model(mesh) - default(mesh)).abs().max() > 1e-3
    last = ("attention_out", "network_out")
    for key, parameter in model.named_parameters():
        if ".read." in key or any(word in key for word in last):
            nn.init.zeros_(parameter)
    torch.testing.assert_close(model(mesh), default(mesh), **tolerance(torch.float64, terms=80))


def test_positions_have_their_centre_and_scale() -> None:
    graph = PrimalDualGraph.batch([PrimalDualGraph.from_mesh(bumpy(seed)) for seed in (0, 1)])
    place = centred_positions(graph, torch.float64)
    assert graph.shares is not None
    for k in (0, 1):
        own = graph.primal_batch == k
        share = graph.shares.primal[own, None].double()
        share = share / share.sum()
        torch.testing.assert_close((share * place[own]).sum(0), torch.zeros(3).double())
        square = (share * place[own].square()).sum()
        torch.testing.assert_close(square, torch.ones(()).double())
    with pytest.raises(ValueError, match="no"):
        AttentionClassifier(ClassifierConfig(3, keep=(None, None, None, None)))
