"""The segmenter: counts, gradients, invariance from coordinates, elements, configuration."""

import json

import pytest
import torch
from torch.nn.functional import cross_entropy, mse_loss

from equigeo.mesh import (
    DualKind,
    EdgePool,
    PrimalDualGraph,
    PrimalDualSegmenter,
    SegmenterConfig,
    TriangleMesh,
)
from tests.mesh import shapes
from tests.mesh.definitions import assert_close
from tests.mesh.models.small_models import (
    SCARCE,
    assert_finite,
    assert_invariant,
    assert_invariant_to_motions_alone,
    chiral,
    missed,
    trained,
)
from tests.tier import tier

SMALL = {"channels": (8, 8, 16), "keep": (0.7, 0.7)}
ELEMENTS = ["faces", "edges", "vertices", "mesh"]


def _trained(**settings):
    return trained(PrimalDualSegmenter, SegmenterConfig(3, **SMALL | settings))


def test_the_published_networks_have_as_many_parameters():
    for classes, heads, parameters in ((4, 1, 77_256), (3, 1, 77_222), (8, 2, 172_048)):
        model = PrimalDualSegmenter.preset("paper", classes, heads=heads)
        assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("heads", [1, 2])
def test_every_parameter_learns(preset, heads):
    torch.manual_seed(0)
    model = PrimalDualSegmenter.preset(preset, 3, heads=heads, dropout=0.0).double().train()
    graph = PrimalDualGraph.batch([model.graph(chiral()), model.graph(shapes.bowl())])
    cross_entropy(model(graph), torch.randint(3, (graph.num_primal,))).backward()
    assert not missed(model)


LAYOUTS = [(features, at) for features in ("multiscale", "invariant") for at in ELEMENTS]


@pytest.mark.parametrize(
    ("features", "elements"), tier([LAYOUTS[0], LAYOUTS[2], LAYOUTS[5]], LAYOUTS)
)
def test_outputs_are_invariant_from_coordinates(features, elements):
    assert_invariant(_trained(features=features, outputs_at=elements), 3, 1e4)


@pytest.mark.parametrize("features", tier(["sorted"], ["reference", "sorted"]))
def test_published_features_follow_motions_but_not_reflections(features):
    assert_invariant_to_motions_alone(_trained(features=features), 3, 1e4)


@pytest.mark.parametrize("name", SCARCE)
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_the_smallest_meshes_have_outputs_and_gradients(name, preset):
    torch.manual_seed(0)
    mesh, model = SCARCE[name], PrimalDualSegmenter.preset(preset, 4).train()
    out = model(mesh)
    assert out.shape == (mesh.num_faces, 4)
    out.square().sum().backward()
    assert_finite(model, out, model.eval()(mesh))


@pytest.mark.parametrize("elements", ELEMENTS)
@pytest.mark.parametrize("dual", tier([DualKind.SINGLE], [*DualKind]))
def test_a_batch_is_its_meshes_one_after_the_other(elements, dual):
    model = _trained(dual=dual.value, outputs_at=elements)
    meshes = [chiral(), shapes.bowl(), shapes.tetrahedron()]
    each = [model(mesh) for mesh in meshes]
    assert_close(model(meshes), torch.cat(each))
    mesh = meshes[1]
    ends = torch.stack((mesh.faces, mesh.faces.roll(-1, 1)), -1).reshape(-1, 2).sort(1).values
    edges = len(torch.unique(ends, dim=0))
    numbers = {"faces": mesh.num_faces, "edges": edges, "vertices": mesh.num_vertices}
    assert len(each[1]) == numbers.get(elements, 1)


def test_renumbered_faces_have_renumbered_outputs():
    model, mesh = _trained(), chiral()
    order = torch.randperm(mesh.num_faces, generator=torch.Generator().manual_seed(1))
    turned = mesh.faces[order].roll(1, dims=1)
    found = model(TriangleMesh(mesh.vertices, turned))
    assert_close(found, model(mesh)[order], terms=64, condition=1e3)


def test_unpooling_makes_outputs_of_every_face_where_faces_were_merged():
    model, mesh = _trained(), chiral()
    levels = model.clusters(model.graph(mesh))
    assert [len(level) for level in levels] == [mesh.num_faces] * 2
    counts = [int(level.max()) + 1 for level in levels]
    assert mesh.num_faces > counts[0] > counts[1]
    assert len(model(mesh).unique(dim=0)) == mesh.num_faces  # skips tell merged faces apart
    model, mesh = _trained(channels=(8, 8, 8), keep=(None, 0.7)), chiral()
    assert [isinstance(block.pool, EdgePool) for block in model.encoder] == [False, True]
    assert model(mesh).shape == (mesh.num_faces, 3)
    assert len(model.clusters(model.graph(mesh))) == 1


def test_heights_of_vertices_are_regressed():
    torch.manual_seed(0)
    mesh = shapes.lumpy(shapes.icosphere(1))
    target = mesh.vertices[:, 2:].float()
    model = PrimalDualSegmenter.preset(
        "default", 1, outputs_at="vertices", channels=(16, 16), keep=(0.7,), dropout=0.0
    )
    graph = model.graph(mesh)
    model.fit_standardization([graph])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = mse_loss(model(graph), target).item()
    for _ in range(20):
        optimizer.zero_grad()
        loss = mse_loss(model(graph), target)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1 * first


def test_a_configuration_survives_json_and_an_unknown_preset_is_refused():
    for config in (SegmenterConfig(4), SegmenterConfig.paper(4)):
        model = PrimalDualSegmenter.from_config(json.loads(json.dumps(config.to_dict())))
        assert model.config == config
    with pytest.raises(ValueError, match="preset must be one of"):
        PrimalDualSegmenter.preset("large", 4)


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


def test_graphs_of_another_model_are_refused():
    model = PrimalDualSegmenter.preset("default", 4).eval()
    graph = PrimalDualGraph.from_mesh(chiral(), features="sorted")
    with pytest.raises(
        ValueError, match=r"the model wants single graphs with multiscale features.*model\.graph"
    ):
        model(graph)
    with pytest.raises(TypeError, match="TriangleMesh"):
        model(torch.zeros(3))
    with pytest.raises(ValueError, match="at least one"):
        model([])
