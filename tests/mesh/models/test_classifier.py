"""The classifier: counts, gradients, invariance from coordinates, scarce input, configuration."""

import json
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from equigeo.groups import Affine, O
from equigeo.mesh import (
    ClassifierConfig,
    DualKind,
    EdgePool,
    MeshError,
    PrimalDualClassifier,
    PrimalDualGraph,
)
from equigeo.reps import Trivial
from equigeo.testing import assert_equivariant, equivariance_error
from tests.mesh import shapes
from tests.mesh.definitions import F64, assert_close, graph_of

SMALL = {"channels": (8, 8), "keep": (None, None)}
POOLED = {"channels": (8, 8), "keep": (0.7, 0.7)}
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


def _training_meshes():
    several = [_chiral(), shapes.bowl(), shapes.lumpy(shapes.torus()), shapes.random_hull(0, 30)]
    return [shapes.turned(shape, seed) for seed, shape in enumerate(several)]


def _trained(config, seed=0):
    """A model whose statistics and weights are those of no special moment."""
    torch.manual_seed(seed)
    model = PrimalDualClassifier(config).double()
    graphs = [model.graph(shape) for shape in _training_meshes()]
    model.fit_standardization(graphs)
    model.train()
    for _ in range(3):  # running statistics
        model(PrimalDualGraph.batch(graphs))
    return model.eval()


def _logits(model):
    return lambda shape: model(model.graph(shape)).detach()


def _gradients(model, meshes):
    """Parameters with a nonzero gradient, and those without."""
    batch = PrimalDualGraph.batch([model.graph(shape) for shape in meshes])
    loss = cross_entropy(model.train()(batch), torch.arange(batch.num_graphs))
    loss.backward()
    reached, missed = {}, {}
    for name, parameter in model.named_parameters():
        alive = parameter.grad is not None and bool(parameter.grad.any())
        (reached if alive else missed)[name] = parameter.numel()
    return reached, missed


@pytest.mark.parametrize(
    ("classes", "dual", "parameters"),
    [
        (30, DualKind.SINGLE, 567_226),
        (30, DualKind.DOUBLE_UNDIRECTED, 566_650),
        (30, DualKind.DOUBLE_DIRECTED, 566_650),
        (22, DualKind.SINGLE, 566_418),
    ],
)
def test_the_paper_preset_has_the_parameters_of_the_reference(classes, dual, parameters):
    config = replace(ClassifierConfig.paper(classes), dual=dual.value)
    model = PrimalDualClassifier(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def test_every_parameter_of_the_default_preset_receives_a_gradient():
    torch.manual_seed(0)
    model = PrimalDualClassifier.preset("default", 4)
    _, missed = _gradients(model, _training_meshes())
    assert not missed


def test_the_paper_preset_never_trains_its_primal_stream():
    torch.manual_seed(0)
    model = PrimalDualClassifier.preset("paper", 30)
    reached, missed = _gradients(model, _training_meshes())
    assert sum(reached.values()) == 305_530
    assert sum(missed.values()) == 261_696
    assert all("primal" in name for name in missed)
    assert sum("primal_attention" in name for name in missed) == 4


def test_reading_both_streams_trains_the_ranking_of_contractions():
    torch.manual_seed(0)
    config = replace(ClassifierConfig.paper(30), streams="both")
    reached, missed = _gradients(PrimalDualClassifier(config), _training_meshes())
    assert sum("primal_attention" in name for name in reached) == 4
    assert not missed


@pytest.mark.parametrize("shape", [_chiral(), shapes.bowl(), shapes.lumpy(shapes.torus())])
def test_default_logits_are_invariant_to_motions_and_reflections(shape):
    model = _trained(ClassifierConfig(5))
    rep_out = Trivial(Affine(O(3)), 5)
    assert_equivariant(_logits(model), rep_out=rep_out, inputs=[shape], condition=1e3)
    assert model.rep_out == Trivial(O(3), 5)


@pytest.mark.parametrize("dual", list(DualKind))
def test_invariance_survives_pooling(dual):
    model = _trained(ClassifierConfig(5, dual=dual.value, **POOLED))
    rep_out = Trivial(Affine(O(3)), 5)
    assert_equivariant(_logits(model), rep_out=rep_out, inputs=[_chiral()], condition=1e4)


@pytest.mark.parametrize("features", ["reference", "sorted"])
def test_published_features_follow_motions_but_not_reflections(features):
    model = _trained(ClassifierConfig(5, features=features, **SMALL))
    rep_out, inputs = Trivial(Affine(O(3)), 5), [_chiral()]
    assert equivariance_error(_logits(model), rep_out=rep_out, inputs=inputs) > 1e-3
    motions = Affine(O(3)).testing_elements(torch.Generator().manual_seed(0))
    motions = motions[torch.linalg.det(motions) > 0]
    assert_equivariant(
        _logits(model), rep_out=rep_out, inputs=inputs, elements=motions, condition=1e3
    )


def test_a_mirrored_chiral_mesh_changes_the_logits_of_published_features_alone():
    shape = _chiral()
    published = _logits(_trained(ClassifierConfig(5, features="reference", **SMALL)))
    assert float((published(shape) - published(shapes.mirrored(shape))).abs().max()) > 1e-3
    invariant = _logits(_trained(ClassifierConfig(5, **SMALL)))
    assert_close(invariant(shapes.mirrored(shape)), invariant(shape), terms=64, condition=1e3)


@pytest.mark.parametrize("factor", [1e-6, 7.0, 1e6])
def test_logits_do_not_depend_on_the_unit_of_length_or_the_winding(factor):
    logits = _logits(_trained(ClassifierConfig(5, **SMALL)))
    shape = _chiral()
    expected = logits(shape)
    assert_close(logits(shapes.scaled(shape, factor)), expected, terms=64, condition=1e3)
    assert_close(logits(shapes.reversed_winding(shape)), expected, terms=64, condition=1e3)


@pytest.mark.parametrize("settings", [SMALL, POOLED], ids=["plain", "pooled"])
@pytest.mark.parametrize(
    "shape",
    [_chiral(), shapes.bowl(), shapes.cube(), shapes.icosahedron(), shapes.torus()],
    ids=["chiral", "open", "cube", "icosahedron", "torus"],
)
def test_logits_do_not_depend_on_any_numbering_not_even_on_symmetric_meshes(shape, settings):
    logits = _logits(_trained(ClassifierConfig(5, **settings)))
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
    graphs = [model.graph(shape) for shape in _training_meshes()]
    with torch.no_grad():
        together = model(PrimalDualGraph.batch(graphs))
        separate = torch.cat([model(graph) for graph in graphs])
    assert_close(together, separate, terms=256, condition=100)


@pytest.mark.parametrize("preset", ["default", "paper", "pooled"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", list(SCARCE.values()), ids=list(SCARCE))
def test_scarce_meshes_give_finite_logits_and_gradients(shape, training, preset):
    torch.manual_seed(0)
    pooled = ClassifierConfig(3, channels=(8, 8), keep=(0.0, 0.5))
    configs = {"paper": ClassifierConfig.paper(3), "pooled": pooled}
    model = PrimalDualClassifier(configs.get(preset, ClassifierConfig(3))).train(training)
    batch = PrimalDualGraph.batch([model.graph(shape), model.graph(shape)])
    logits = model(batch)
    assert bool(torch.isfinite(logits).all())
    cross_entropy(logits, torch.tensor([0, 2])).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or bool(torch.isfinite(parameter.grad).all()), name
    for name, buffer in model.named_buffers():
        assert bool(torch.isfinite(buffer).all()), name


def test_one_mesh_alone_trains_the_paper_preset_and_is_refused_by_the_norm_of_the_default():
    torch.manual_seed(0)
    model = PrimalDualClassifier.preset("paper", 3).train()
    cross_entropy(model(model.graph(shapes.bowl())), torch.tensor([1])).backward()
    model = PrimalDualClassifier.preset("default", 3).train()
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        model(model.graph(shapes.bowl()))
    assert bool(torch.isfinite(model.eval()(model.graph(shapes.bowl()))).all())


@pytest.mark.parametrize("training", [True, False])
def test_a_mesh_without_faces_among_others_reads_as_zero(training):
    torch.manual_seed(0)
    model = PrimalDualClassifier(ClassifierConfig(3, **POOLED)).train(training)
    empty = shapes.mesh(torch.zeros(1, 3), [])
    several = (empty, shapes.bowl(), shapes.cube(), empty)
    logits = model(PrimalDualGraph.batch([model.graph(shape) for shape in several]))
    assert bool(torch.isfinite(logits).all())


def test_clusters_compose_the_pooling_steps():
    model = _trained(ClassifierConfig(5, **POOLED))
    graph = PrimalDualGraph.batch([model.graph(shape) for shape in _training_meshes()])
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


def test_without_pooling_there_are_no_clusters():
    model = _trained(ClassifierConfig(5, **SMALL))
    assert model.clusters(model.graph(shapes.bowl())) == []


def test_asking_for_clusters_changes_nothing():
    torch.manual_seed(0)
    model = PrimalDualClassifier(ClassifierConfig(5, **POOLED)).train()
    graph = model.graph(shapes.bowl())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.clusters(graph)
    assert model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize(
    "config",
    [ClassifierConfig(7), ClassifierConfig.paper(30), ClassifierConfig(3, **POOLED)],
    ids=["default", "paper", "pooled"],
)
def test_a_model_is_rebuilt_from_its_configuration_and_state(config):
    model = _trained(config)
    values = json.loads(json.dumps(model.config.to_dict()))
    assert values == model.config.to_dict()
    rebuilt = PrimalDualClassifier.from_config(values).double().eval()
    assert rebuilt.config == config
    rebuilt.load_state_dict(model.state_dict())
    for shape in (_chiral(), shapes.bowl()):
        assert torch.equal(_logits(rebuilt)(shape), _logits(model)(shape))


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
    assert PrimalDualClassifier.preset("default", 3).config == ClassifierConfig(3)
    assert PrimalDualClassifier.preset("paper", 3).config == ClassifierConfig.paper(3)
    with pytest.raises(ValueError, match=r"preset must be one of.*'huge'"):
        PrimalDualClassifier.preset("huge", 3)


@pytest.mark.parametrize(
    "change",
    [
        {"features": "curvature"},
        {"dual": "triple"},
        {"streams": "all"},
        {"statistics": ["median"]},
        {"norm": "layer"},
        {"num_classes": 0},
        {"heads": 0},
        {"skips": -1},
        {"channels": [8]},
        {"channels": [], "keep": []},
        {"keep": [0.8, 2.0, None, None]},
        {"dropout": 1.5},
        {"colour": "red"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_configuration_that_cannot_be_built_is_refused(change):
    with pytest.raises(ValueError, match=r"\w"):
        PrimalDualClassifier.from_config({**ClassifierConfig(3).to_dict(), **change})


def test_a_configuration_without_classes_is_refused():
    values = ClassifierConfig(3).to_dict()
    del values["num_classes"]
    with pytest.raises(ValueError, match="num_classes"):
        PrimalDualClassifier.from_config(values)


def test_graphs_with_other_features_or_another_dual_kind_are_refused():
    model = PrimalDualClassifier(ClassifierConfig(3, **SMALL))
    for graph in (
        graph_of(shapes.cube(), features="reference"),
        graph_of(shapes.cube(), DualKind.DOUBLE_DIRECTED, "multiscale"),
    ):
        with pytest.raises(ValueError, match="the model wants single graphs with multiscale"):
            model(graph)


def test_a_mesh_that_is_no_manifold_is_refused():
    model = PrimalDualClassifier(ClassifierConfig(3, **SMALL))
    fan = shapes.mesh(torch.eye(5, 3), [(0, 1, 2), (1, 0, 3), (0, 1, 4)])
    with pytest.raises(MeshError, match="non-manifold"):
        model.graph(fan)


def test_standardization_is_measured_over_the_nodes_of_all_training_graphs():
    model = PrimalDualClassifier(ClassifierConfig(3, **SMALL)).double()
    graphs = [model.graph(shape) for shape in _training_meshes()]
    model.fit_standardization(graphs)
    for layer, name in ((model.standardize_primal, "x_primal"), (model.standardize_dual, "x_dual")):
        rows = torch.cat([getattr(graph, name) for graph in graphs])
        assert_close(layer.mean, rows.mean(dim=0), terms=len(rows))
        assert_close(layer.deviation, rows.std(dim=0), terms=len(rows))
    with pytest.raises(ValueError, match="features must be"):
        model.fit_standardization([])


def test_the_graph_has_the_dtype_of_the_model():
    model = PrimalDualClassifier(ClassifierConfig(3, **SMALL)).double()
    assert model.graph(shapes.cube()).x_dual.dtype == F64
    assert model.float().graph(shapes.cube()).x_dual.dtype == torch.float32
    assert model.eval()(model.graph(shapes.cube())).dtype == torch.float32


def test_dropout_acts_in_training_alone():
    torch.manual_seed(0)
    model = PrimalDualClassifier(ClassifierConfig(3, dropout=0.5, **SMALL))
    batch = PrimalDualGraph.batch([model.graph(shape) for shape in _training_meshes()])
    assert not torch.equal(model.train()(batch), model(batch))
    assert torch.equal(model.eval()(batch), model(batch))


def test_clusters_put_every_part_of_the_model_back_in_its_mode():
    model = PrimalDualClassifier(ClassifierConfig(3, keep=(None, None, 0.7, None))).train()
    frozen = model.blocks[0].norm.primal.eval()
    graph = model.graph(shapes.icosahedron())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.clusters(graph)
    assert not frozen.training
    assert model.head.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_preset_changes_by_name():
    config = PrimalDualClassifier.preset("paper", 4, heads=1, channels=(16, 32)).config
    assert config == replace(ClassifierConfig.paper(4), heads=1, channels=(16, 32))
    with pytest.raises(ValueError, match=r"unknown fields .'head'."):
        PrimalDualClassifier.preset("paper", 4, head=1)
    with pytest.raises(ValueError, match="channels = 8, expected"):
        PrimalDualClassifier.preset("paper", 4, channels=8)
