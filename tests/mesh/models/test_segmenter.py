"""The segmenter: counts, gradients, invariance from coordinates, elements, configuration."""

import json
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy, mse_loss

from equigeo.groups import Affine, O
from equigeo.mesh import (
    DualKind,
    EdgePool,
    PrimalDualGraph,
    PrimalDualSegmenter,
    SegmenterConfig,
    TriangleMesh,
)
from equigeo.reps import Trivial
from equigeo.testing import assert_equivariant, equivariance_error
from tests.mesh import shapes
from tests.mesh.definitions import assert_close

SMALL = {"channels": (8, 8, 16), "keep": (0.7, 0.7)}
SCARCE = {
    "one triangle": shapes.triangle(),
    "two isolated faces": shapes.two_isolated(),
    "one pair": shapes.two_faces(1.0),
    "a pillow": shapes.pillow(),
    "a tetrahedron": shapes.tetrahedron(),
}


def _chiral():
    """Closed, without any mirror symmetry."""
    return shapes.lumpy(shapes.icosphere(1), seed=3)


def _trained(config, seed=0):
    """A model whose statistics and weights are those of no special moment."""
    torch.manual_seed(seed)
    model = PrimalDualSegmenter(config).double()
    several = [_chiral(), shapes.bowl(), shapes.lumpy(shapes.torus())]
    graphs = [model.graph(shape) for shape in several]
    model.fit_standardization(graphs)
    model.train()
    for _ in range(3):  # running statistics
        model(PrimalDualGraph.batch(graphs))
    return model.eval()


@pytest.mark.parametrize(
    ("classes", "heads", "parameters"), [(4, 1, 77_256), (3, 1, 77_222), (8, 2, 172_048)]
)
def test_the_published_networks_have_as_many_parameters(classes, heads, parameters):
    model = PrimalDualSegmenter.preset("paper", classes, heads=heads)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("heads", [1, 2])
def test_every_parameter_learns(preset, heads):
    torch.manual_seed(0)
    model = PrimalDualSegmenter.preset(preset, 3, heads=heads, dropout=0.0).double().train()
    graph = PrimalDualGraph.batch([model.graph(_chiral()), model.graph(shapes.bowl())])
    labels = torch.randint(3, (graph.num_primal,))
    cross_entropy(model(graph), labels).backward()
    missed = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not bool(parameter.grad.any())
    ]
    assert missed == []


def _outputs(model):
    return lambda shape: model(shape).detach()


@pytest.mark.parametrize("features", ["invariant", "multiscale"])
@pytest.mark.parametrize("elements", ["faces", "edges", "vertices", "mesh"])
def test_outputs_are_invariant_from_coordinates(features, elements):
    model = _trained(SegmenterConfig(3, features=features, outputs_at=elements, **SMALL))
    rep_out = Trivial(Affine(O(3)), 3)
    assert_equivariant(_outputs(model), rep_out=rep_out, inputs=[_chiral()], condition=1e4)


@pytest.mark.parametrize("features", ["reference", "sorted"])
def test_published_features_follow_motions_but_not_reflections(features):
    """The control of the test above: the same network with the features of SE(3)."""
    model = _trained(SegmenterConfig(3, features=features, **SMALL))
    rep_out, inputs = Trivial(Affine(O(3)), 3), [_chiral()]
    assert equivariance_error(_outputs(model), rep_out=rep_out, inputs=inputs) > 1e-3
    motions = Affine(O(3)).testing_elements(torch.Generator().manual_seed(0))
    motions = motions[torch.linalg.det(motions) > 0]
    assert_equivariant(
        _outputs(model), rep_out=rep_out, inputs=inputs, elements=motions, condition=1e4
    )


@pytest.mark.parametrize("name", sorted(SCARCE))
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_the_smallest_meshes_have_outputs_and_gradients(name, preset):
    torch.manual_seed(0)
    mesh = SCARCE[name]
    model = PrimalDualSegmenter.preset(preset, 4).train()
    out = model(mesh)
    assert out.shape == (mesh.num_faces, 4)
    assert bool(torch.isfinite(out).all())
    out.square().sum().backward()
    found = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(bool(torch.isfinite(grad).all()) for grad in found)
    assert bool(torch.isfinite(model.eval()(mesh)).all())


@pytest.mark.parametrize("elements", ["faces", "edges", "vertices", "mesh"])
@pytest.mark.parametrize("dual", list(DualKind))
def test_a_batch_is_its_meshes_one_after_the_other(elements, dual):
    config = replace(SegmenterConfig(3, dual=dual.value, outputs_at=elements), **SMALL)
    model = _trained(config)
    meshes = [_chiral(), shapes.bowl(), shapes.tetrahedron()]
    each = [model(mesh) for mesh in meshes]
    assert_close(model(meshes), torch.cat(each))
    mesh = meshes[1]
    edges = torch.unique(
        torch.stack((mesh.faces, mesh.faces.roll(-1, 1)), -1).reshape(-1, 2).sort(1).values, dim=0
    )
    numbers = {"faces": mesh.num_faces, "edges": len(edges), "vertices": mesh.num_vertices}
    assert len(each[1]) == numbers.get(elements, 1)


def test_renumbered_faces_have_renumbered_outputs():
    model = _trained(replace(SegmenterConfig(3), **SMALL))
    mesh = _chiral()
    order = torch.randperm(mesh.num_faces, generator=torch.Generator().manual_seed(1))
    turned = mesh.faces[order].roll(1, dims=1)
    found = model(TriangleMesh(mesh.vertices, turned))
    assert_close(found, model(mesh)[order], terms=64, condition=1e3)


def test_unpooling_makes_outputs_of_every_face_and_clusters_those_that_were_merged():
    model = _trained(replace(SegmenterConfig(3), **SMALL))
    mesh = _chiral()
    levels = model.clusters(model.graph(mesh))
    assert [len(level) for level in levels] == [mesh.num_faces] * 2
    counts = [int(level.max()) + 1 for level in levels]
    assert mesh.num_faces > counts[0] > counts[1]
    assert len(model(mesh).unique(dim=0)) == mesh.num_faces  # skips tell merged faces apart


def test_without_pooling_nothing_is_unpooled():
    model = _trained(replace(SegmenterConfig(3), channels=(8, 8, 8), keep=(None, 0.7)))
    assert [isinstance(block.pool, EdgePool) for block in model.encoder] == [False, True]
    assert model(_chiral()).shape == (_chiral().num_faces, 3)
    assert len(model.clusters(model.graph(_chiral()))) == 1


def test_values_at_vertices_are_regressed():
    """Heights over the plane of a bowl, whose logits are as well values."""
    torch.manual_seed(0)
    mesh = shapes.bowl()
    target = mesh.vertices[:, 2:].float()
    model = PrimalDualSegmenter.preset(
        "default", 1, outputs_at="vertices", channels=(16, 16), keep=(0.7,), dropout=0.0
    )
    graph = model.graph(mesh)
    model.fit_standardization([graph])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = mse_loss(model(graph), target).item()
    for _ in range(100):
        optimizer.zero_grad()
        loss = mse_loss(model(graph), target)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1 * first


def test_a_configuration_survives_json():
    for config in (SegmenterConfig(4), SegmenterConfig.paper(4)):
        model = PrimalDualSegmenter.from_config(json.loads(json.dumps(config.to_dict())))
        assert model.config == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outputs_at": "corners"}, "outputs_at = .corners., expected one of"),
        ({"features": "curvature"}, "features = .curvature., expected one of"),
        ({"channels": (8, 8)}, "channels must have one entry more than keep"),
        ({"keep": (0.7, 1.5)}, "keep"),
        ({"heads": 0}, "heads"),
        ({"wings": 2}, "wings"),
    ],
)
def test_a_wrong_choice_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        PrimalDualSegmenter.preset("default", 4, **changes)


def test_an_unknown_preset_is_refused():
    with pytest.raises(ValueError, match="preset must be one of"):
        PrimalDualSegmenter.preset("large", 4)


def test_graphs_of_another_model_are_refused():
    model = PrimalDualSegmenter.preset("default", 4).eval()
    graph = PrimalDualGraph.from_mesh(_chiral(), features="sorted")
    with pytest.raises(ValueError, match="the model wants single graphs with multiscale features"):
        model(graph)
    with pytest.raises(TypeError, match="TriangleMesh"):
        model(torch.zeros(3))
    with pytest.raises(ValueError, match="at least one"):
        model([])
