"""The classifier: counts, gradients, invariance from coordinates, scarce input, configuration."""

import json
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from equigeo.groups import O
from equigeo.mesh import (
    ClassifierConfig,
    DualKind,
    EdgePool,
    PrimalDualClassifier,
    PrimalDualGraph,
)
from equigeo.reps import Trivial
from tests.mesh import shapes
from tests.mesh.definitions import F64, assert_close, graph_of
from tests.mesh.models.small_models import (
    SCARCE,
    assert_finite,
    assert_invariant,
    assert_invariant_to_motions_alone,
    chiral,
    missed,
    outputs,
    trained,
    training_meshes,
)
from tests.tier import tier

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


def test_the_paper_preset_has_the_parameters_of_the_reference():
    for classes, dual, parameters in (
        (30, DualKind.SINGLE, 567_226),
        (30, DualKind.DOUBLE_UNDIRECTED, 566_650),
        (30, DualKind.DOUBLE_DIRECTED, 566_650),
        (22, DualKind.SINGLE, 566_418),
    ):
        model = PrimalDualClassifier(replace(ClassifierConfig.paper(classes), dual=dual.value))
        assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def test_every_parameter_receives_a_gradient_where_both_streams_are_read():
    assert not _missed(ClassifierConfig(4))
    assert not _missed(replace(ClassifierConfig.paper(30), streams="both"))


def test_the_paper_preset_never_trains_its_primal_stream():
    found = _missed(ClassifierConfig.paper(30))
    assert sum(found.values()) == 261_696
    assert all("primal" in name for name in found)
    assert sum("primal_attention" in name for name in found) == 4


def test_default_logits_are_invariant_to_motions_and_reflections():
    model = _trained()
    assert model.rep_out == Trivial(O(3), 5)
    for shape in tier([chiral()], [chiral(), shapes.bowl(), shapes.lumpy(shapes.torus())]):
        assert_invariant(model, 5, 1e3, shape)


@pytest.mark.parametrize("dual", tier([DualKind.SINGLE], [*DualKind]))
def test_invariance_survives_pooling(dual):
    assert_invariant(_trained(dual=dual.value, **POOLED), 5, 1e4)


@pytest.mark.parametrize("features", tier(["sorted"], ["reference", "sorted"]))
def test_published_features_follow_motions_but_not_reflections(features):
    assert_invariant_to_motions_alone(_trained(features=features, **SMALL), 5, 1e3)


def test_logits_do_not_depend_on_the_unit_of_length_or_the_winding():
    logits, shape = outputs(_trained(**SMALL)), chiral()
    expected = logits(shape)
    others = [shapes.scaled(shape, factor) for factor in (1e-6, 7.0, 1e6)]
    for other in (*others, shapes.reversed_winding(shape), shapes.mirrored(shape)):
        assert_close(logits(other), expected, terms=64, condition=1e3)


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
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        model(model.graph(shapes.bowl()))
    assert bool(torch.isfinite(model.eval()(model.graph(shapes.bowl()))).all())


@pytest.mark.parametrize("training", [True, False])
def test_a_mesh_without_faces_among_others_has_finite_logits(training):
    model, empty = _model(**POOLED).train(training), shapes.mesh(torch.zeros(1, 3), [])
    logits = model(_batch(model, [empty, shapes.bowl(), shapes.cube(), empty]))
    assert bool(torch.isfinite(logits).all())


def test_clusters_compose_the_pooling_steps():
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
    model = _trained(**SMALL)
    assert model.clusters(model.graph(shapes.bowl())) == []


def test_clusters_leave_modes_and_state_of_the_model_as_they_are():
    model = _model(keep=(None, None, 0.7, None)).train()
    frozen = model.blocks[0].norm.primal.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.clusters(model.graph(shapes.icosahedron()))
    assert not frozen.training
    assert model.training
    assert model.head.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


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
    assert PrimalDualClassifier.preset("default", 3).config == ClassifierConfig(3)
    assert PrimalDualClassifier.preset("paper", 3).config == ClassifierConfig.paper(3)
    with pytest.raises(ValueError, match=r"preset must be one of.*'huge'"):
        PrimalDualClassifier.preset("huge", 3)
    config = PrimalDualClassifier.preset("paper", 4, heads=1, channels=(16, 32)).config
    assert config == replace(ClassifierConfig.paper(4), heads=1, channels=(16, 32))
    with pytest.raises(ValueError, match=r"unknown fields .'head'."):
        PrimalDualClassifier.preset("paper", 4, head=1)
    with pytest.raises(ValueError, match="channels = 8, expected"):
        PrimalDualClassifier.preset("paper", 4, channels=8)
    values = ClassifierConfig(3).to_dict()
    del values["num_classes"]
    with pytest.raises(ValueError, match="num_classes"):
        PrimalDualClassifier.from_config(values)


WRONG = [
    *({"features": "curvature"}, {"dual": "triple"}, {"streams": "all"}, {"norm": "layer"}),
    *({"statistics": ["median"]}, {"num_classes": 0}, {"heads": 0}, {"skips": -1}),
    *({"channels": [8]}, {"channels": [], "keep": []}, {"keep": [0.8, 2.0, None, None]}),
    *({"dropout": 1.5}, {"colour": "red"}),
]


@pytest.mark.parametrize("change", WRONG, ids=lambda change: next(iter(change)))
def test_a_configuration_that_cannot_be_built_is_refused(change):
    with pytest.raises(ValueError, match=r"\w"):
        PrimalDualClassifier.from_config({**ClassifierConfig(3).to_dict(), **change})


def test_graphs_with_other_features_or_another_dual_kind_are_refused():
    model = _model(**SMALL)
    for graph in (
        graph_of(shapes.cube(), features="reference"),
        graph_of(shapes.cube(), DualKind.DOUBLE_DIRECTED, "multiscale"),
    ):
        with pytest.raises(
            ValueError, match=r"the model wants single graphs with multiscale.*model\.graph"
        ):
            model(graph)


def test_standardization_is_measured_over_the_nodes_of_all_training_graphs():
    model = _model(**SMALL).double()
    graphs = [model.graph(shape) for shape in training_meshes()]
    model.fit_standardization(graphs)
    for layer, name in ((model.standardize_primal, "x_primal"), (model.standardize_dual, "x_dual")):
        rows = torch.cat([getattr(graph, name) for graph in graphs])
        assert_close(layer.mean, rows.mean(dim=0), terms=len(rows))
        assert_close(layer.deviation, rows.std(dim=0), terms=len(rows))
    with pytest.raises(ValueError, match="features must be"):
        model.fit_standardization([])


def test_the_graph_has_the_dtype_of_the_model():
    model = _model(**SMALL).double()
    assert model.graph(shapes.cube()).x_dual.dtype == F64
    assert model.float().graph(shapes.cube()).x_dual.dtype == torch.float32
    assert model.eval()(model.graph(shapes.cube())).dtype == torch.float32


def test_dropout_acts_in_training_alone():
    model = _model(dropout=0.5, **SMALL)
    batch = _batch(model)
    assert not torch.equal(model.train()(batch), model(batch))
    assert torch.equal(model.eval()(batch), model(batch))
