import json
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy, mse_loss

from equigeo.groups import O
from equigeo.mesh import (
    ClassifierConfig,
    DualKind,
    EdgePool,
    PrimalDualClassifier,
    PrimalDualGraph,
    PrimalDualSegmenter,
    SegmenterConfig,
    TriangleMesh,
)
from equigeo.reps import Trivial
from tests.mesh import shapes
from tests.mesh.definitions import (
    F64,
    SCARCE,
    assert_close,
    assert_finite,
    assert_invariant,
    assert_invariant_to_motions_alone,
    chiral,
    graph_of,
    missed,
    outputs,
    trained,
    training_meshes,
)
from tests.tier import tier
from tests.wrong_inputs import refused

SMALL = {"channels": (8, 8), "keep": (None, None)}
POOLED = {"channels": (8, 8), "keep": (0.7, 0.7)}


def _model(seed=0, **settings):
    torch.manual_seed(seed)
    return PrimalDualClassifier(ClassifierConfig(3, **settings))


def _trained(**settings):
    return trained(PrimalDualClassifier, ClassifierConfig(5, **settings))


def _batch(model, meshes=None):
    return PrimalDualGraph.batch([model.graph(mesh) for mesh in meshes or training_meshes()])


def _missed(config):
    """Parameters that a training step does not reach."""
    torch.manual_seed(0)
    model = PrimalDualClassifier(config).train()
    cross_entropy(model(_batch(model)), torch.arange(4)).backward()
    return missed(model)


def test_the_paper_preset_has_the_parameters_of_the_reference_and_never_trains_its_primal_stream():
    for classes, dual, parameters in (
        (30, DualKind.SINGLE, 567_226),
        (30, DualKind.DOUBLE_UNDIRECTED, 566_650),
        (30, DualKind.DOUBLE_DIRECTED, 566_650),
        (22, DualKind.SINGLE, 566_418),
    ):
        model = PrimalDualClassifier(replace(ClassifierConfig.paper(classes), dual=dual.value))
        assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    found = _missed(ClassifierConfig.paper(30))
    assert sum(found.values()) == 261_696
    assert all("primal" in name for name in found)
    assert sum("primal_attention" in name for name in found) == 4
    # every parameter receives a gradient where both streams are read
    assert not _missed(ClassifierConfig(4))
    assert not _missed(replace(ClassifierConfig.paper(30), streams="both"))


@pytest.mark.parametrize("dual", tier([DualKind.SINGLE], [*DualKind]))
def test_logits_are_invariant_to_motions_and_reflections(dual):
    model = _trained()
    assert model.rep_out == Trivial(O(3), 5)
    for shape in tier([chiral()], [chiral(), shapes.bowl(), shapes.lumpy(shapes.torus())]):
        assert_invariant(model, 5, 1e3, shape)
    assert_invariant(_trained(dual=dual.value, **POOLED), 5, 1e4)
    assert_invariant_to_motions_alone(_trained(features="reference", **SMALL), 5, 1e3)


@pytest.mark.parametrize("settings", [SMALL, POOLED], ids=["plain", "pooled"])
def test_logits_do_not_depend_on_any_numbering_not_even_on_symmetric_meshes(settings):
    logits = outputs(_trained(**settings))
    symmetric = (shapes.cube(), shapes.icosahedron(), shapes.torus())
    for shape in (chiral(), shapes.bowl(), *symmetric):
        expected = logits(shape)
        for seed in range(3):
            other = shapes.renumbered_faces(shape, shapes.permutation(shape.num_faces, seed))
            other = shapes.renumbered_vertices(other, shapes.permutation(shape.num_vertices, seed))
            other = shapes.shifted_corners(other, shapes.permutation(shape.num_faces, seed) % 3)
            assert_close(logits(other), expected, terms=256, condition=1e3)


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_in_evaluation_a_batch_gives_the_separate_logits(preset):
    torch.manual_seed(0)
    model = PrimalDualClassifier.preset(preset, 5).double().eval()
    with torch.no_grad():
        together = model(_batch(model))
        separate = torch.cat([model(mesh) for mesh in training_meshes()])
    assert_close(together, separate, terms=256, condition=100)


@pytest.mark.parametrize("name", SCARCE)
@pytest.mark.parametrize("preset", ["default", "paper", "pooled"])
def test_scarce_meshes_give_finite_logits_and_gradients(name, preset):
    pooled = {"channels": (8, 8), "keep": (0.0, 0.5)} if preset == "pooled" else {}
    for training in (True, False):
        torch.manual_seed(0)
        start = preset if preset == "paper" else "default"
        model = PrimalDualClassifier.preset(start, 3, **pooled).train(training)
        logits = model(_batch(model, [SCARCE[name]] * 2))
        cross_entropy(logits, torch.tensor([0, 2])).backward()
        assert_finite(model, logits)


def test_one_mesh_alone_trains_the_paper_preset_and_is_refused_by_the_norm_of_the_default():
    torch.manual_seed(0)
    model = PrimalDualClassifier.preset("paper", 3).train()
    cross_entropy(model(model.graph(shapes.bowl())), torch.tensor([1])).backward()
    model = PrimalDualClassifier.preset("default", 3).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    message = r"a training batch must have at least two meshes, got 1: .* model.eval\(\) for pred"
    refused(message, model, model.graph(shapes.bowl()))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    model.head[0].eval()  # whose statistics are those of the training
    assert model(model.graph(shapes.bowl())).shape == (1, 3)
    assert bool(torch.isfinite(model.eval()(model.graph(shapes.bowl()))).all())
    model, empty = _model(**POOLED), shapes.mesh(torch.zeros(1, 3), [])
    for training in (True, False):
        logits = model.train(training)(_batch(model, [empty, shapes.bowl(), shapes.cube(), empty]))
        assert bool(torch.isfinite(logits).all())


def test_clusters_compose_the_pooling_steps_and_keep_the_state():
    model = _trained(**POOLED)
    graph = _batch(model)
    steps = []
    for module in model.modules():
        if isinstance(module, EdgePool):
            module.register_forward_hook(lambda *call: steps.append(call[2][1].cluster))
    first, second = model.clusters(graph)
    assert torch.equal(first, steps[0])
    assert torch.equal(second, steps[1][steps[0]])
    for level in (first, second):
        assert level.shape == (graph.num_primal,)
        assert level.unique().tolist() == list(range(int(level.max()) + 1))
    assert graph.num_primal > int(first.max()) + 1 > int(second.max()) + 1
    both = torch.stack((first, second, graph.primal_batch), dim=1).unique(dim=0)
    assert len(both) == int(first.max()) + 1  # one coarse cluster and one mesh per fine cluster
    assert _trained(**SMALL).clusters(model.graph(shapes.bowl())) == []
    model = _model(keep=(None, None, 0.7, None)).train()
    frozen = model.blocks[0].norm.primal.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.clusters(model.graph(shapes.icosahedron()))
    assert (frozen.training, model.training, model.head.training) == (False, True, True)
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    "config",
    [ClassifierConfig(7), ClassifierConfig.paper(30), ClassifierConfig(3, **POOLED)],
    ids=["default", "paper", "pooled"],
)
def test_a_model_is_rebuilt_from_its_configuration_and_state(config):
    model = trained(PrimalDualClassifier, config)
    values = json.loads(json.dumps(model.config.to_dict()))
    assert values == model.config.to_dict()
    rebuilt = PrimalDualClassifier.from_config(values).double().eval()
    assert rebuilt.config == config
    rebuilt.load_state_dict(model.state_dict())
    for shape in (chiral(), shapes.bowl()):
        assert torch.equal(outputs(rebuilt)(shape), outputs(model)(shape))


def test_the_configuration_of_an_earlier_checkpoint_still_loads():
    written = (  # by the first version that had checkpoints
        '{"num_classes": 30, "dual": "single", "features": "reference", "channels": [64, 128], '
        '"keep": [0.8, 0.8], "heads": 3, "skips": 1, "norm": "group", "groups": 16, '
        '"max_degree": null, "activation": true, "self_term": false, "coupling": false, '
        '"streams": "dual", "statistics": ["mean"], "every_block": false, "hidden": 100, '
        '"dropout": 0.0}'
    )
    model = PrimalDualClassifier.from_config(json.loads(written))
    assert model.config == ClassifierConfig.paper(30)
    assert json.loads(written).items() <= json.loads(json.dumps(model.config.to_dict())).items()
    assert not ClassifierConfig.from_dict(json.loads(written)).area_weighted


def test_presets_are_the_configurations_of_their_names():
    preset = PrimalDualClassifier.preset
    assert preset("default", 3).config == ClassifierConfig(3)
    assert preset("paper", 3).config == ClassifierConfig.paper(3)
    config = preset("paper", 4, heads=1, channels=(16, 32)).config
    assert config == replace(ClassifierConfig.paper(4), heads=1, channels=(16, 32))
    refused(r"preset must be one of.*'huge'", preset, "huge", 3)
    refused(r"unknown fields .'head'.", preset, "paper", 4, head=1)
    message = "channels must be a sequence of integers, got 8"
    refused(message, preset, "paper", 4, channels=8, error=TypeError)
    refused("preset must be one of", PrimalDualSegmenter.preset, "large", 4)
    values = ClassifierConfig(3).to_dict()
    del values["num_classes"]
    refused("num_classes", PrimalDualClassifier.from_config, values)


def test_wrong_configurations_raise():
    for change in (
        *({"features": "curvature"}, {"dual": "triple"}, {"streams": "all"}, {"norm": "layer"}),
        *({"statistics": ["median"]}, {"num_classes": 0}, {"heads": 0}, {"skips": -1}),
        *({"channels": [8]}, {"channels": [], "keep": []}, {"keep": [0.8, 2.0, None, None]}),
        *({"dropout": 1.5}, {"colour": "red"}),
    ):
        refused(r"\w", PrimalDualClassifier.from_config, ClassifierConfig(3).to_dict() | change)
    for change, message in (
        ({"outputs_at": "corners"}, "outputs_at = .corners., expected one of"),
        ({"features": "curvature"}, "features = .curvature., expected one of"),
        ({"channels": (8, 8)}, "channels must have one entry more than keep"),
        *(({"keep": (0.7, 1.5)}, "keep"), ({"heads": 0}, "heads"), ({"wings": 2}, "wings")),
    ):
        refused(message, PrimalDualSegmenter.preset, "default", 4, **change)


def test_graphs_with_other_features_or_another_dual_kind_raise():
    model, segmenter = _model(**SMALL), PrimalDualSegmenter.preset("default", 4).eval()
    message = r"the model expects single graphs with multiscale features.*model\.graph\(mesh\)"
    for graph in (
        PrimalDualGraph.from_mesh(shapes.cube()),  # whose default features are "invariant"
        graph_of(shapes.cube(), features="reference"),
        graph_of(shapes.cube(), DualKind.DOUBLE_DIRECTED, "multiscale"),
    ):
        refused(message, model.fit_standardization, [graph])
        for use in (model, model.clusters, segmenter):
            refused(message, use, graph)
    refused("TriangleMesh", segmenter, torch.zeros(3), error=TypeError)
    refused("at least one", segmenter, [])


def test_standardization_is_measured_over_the_nodes_of_all_training_graphs():
    model = _model(**SMALL).double()
    graphs = [model.graph(shape) for shape in training_meshes()]
    model.fit_standardization(graphs)
    for layer, name in ((model.standardize_primal, "x_primal"), (model.standardize_dual, "x_dual")):
        rows = torch.cat([getattr(graph, name) for graph in graphs])
        assert_close(layer.mean, rows.mean(dim=0), terms=len(rows))
        assert_close(layer.deviation, rows.std(dim=0), terms=len(rows))
    refused("features must be", model.fit_standardization, [])


def test_dropout_acts_in_training_alone_and_graphs_have_the_dtype_of_the_model():
    model = _model(dropout=0.5, **SMALL)
    batch = _batch(model)
    assert not torch.equal(model.train()(batch), model(batch))
    assert torch.equal(model.eval()(batch), model(batch))
    model = _model(**SMALL).double()
    assert model.graph(shapes.cube()).x_dual.dtype == F64
    assert model.float().graph(shapes.cube()).x_dual.dtype == torch.float32
    assert model.eval()(model.graph(shapes.cube())).dtype == torch.float32


SMALL_SEGMENTER = {"channels": (8, 8, 16), "keep": (0.7, 0.7)}
ELEMENTS = ["faces", "edges", "vertices", "mesh"]


def _trained_segmenter(**settings):
    return trained(PrimalDualSegmenter, SegmenterConfig(3, **SMALL_SEGMENTER | settings))


def test_the_published_networks_have_as_many_parameters_and_survive_json():
    for classes, heads, parameters in ((4, 1, 77_256), (3, 1, 77_222), (8, 2, 172_048)):
        model = PrimalDualSegmenter.preset("paper", classes, heads=heads)
        assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    for config in (SegmenterConfig(4), SegmenterConfig.paper(4)):
        model = PrimalDualSegmenter.from_config(json.loads(json.dumps(config.to_dict())))
        assert model.config == config


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("heads", [1, 2])
def test_every_parameter_learns(preset, heads):
    torch.manual_seed(0)
    model = PrimalDualSegmenter.preset(preset, 3, heads=heads, dropout=0.0).double().train()
    graph = PrimalDualGraph.batch([model.graph(chiral()), model.graph(shapes.bowl())])
    cross_entropy(model(graph), torch.randint(3, (graph.num_primal,))).backward()
    assert not missed(model)


LAYOUTS = [(features, at) for features in ("multiscale", "invariant") for at in ELEMENTS]


def test_segmenter_outputs_are_invariant_from_coordinates():
    for features, at in tier([LAYOUTS[0], LAYOUTS[2], LAYOUTS[5]], LAYOUTS):
        assert_invariant(_trained_segmenter(features=features, outputs_at=at), 3, 1e4)
    assert_invariant_to_motions_alone(_trained_segmenter(features="reference"), 3, 1e4)


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
    model = _trained_segmenter(dual=dual.value, outputs_at=elements)
    meshes = [chiral(), shapes.bowl(), shapes.tetrahedron()]
    each = [model(mesh) for mesh in meshes]
    assert_close(model(meshes), torch.cat(each))
    mesh = meshes[1]
    ends = torch.stack((mesh.faces, mesh.faces.roll(-1, 1)), -1).reshape(-1, 2).sort(1).values
    edges = len(torch.unique(ends, dim=0))
    numbers = {"faces": mesh.num_faces, "edges": edges, "vertices": mesh.num_vertices}
    assert len(each[1]) == numbers.get(elements, 1)


def test_segmenter_renumbered_faces_permute_outputs_and_skips_separate_merged_faces():
    model, mesh = _trained_segmenter(), chiral()
    order = torch.randperm(mesh.num_faces, generator=torch.Generator().manual_seed(1))
    found = model(TriangleMesh(mesh.vertices, mesh.faces[order].roll(1, dims=1)))
    assert_close(found, model(mesh)[order], terms=64, condition=1e3)
    levels = model.clusters(model.graph(mesh))
    assert [len(level) for level in levels] == [mesh.num_faces] * 2
    counts = [int(level.max()) + 1 for level in levels]
    assert mesh.num_faces > counts[0] > counts[1]
    assert len(model(mesh).unique(dim=0)) == mesh.num_faces
    model = _trained_segmenter(channels=(8, 8, 8), keep=(None, 0.7))
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
