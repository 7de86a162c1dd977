import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh import (
    EdgePool,
    PrimalDualClassifier,
    PrimalDualConv,
    PrimalDualGraph,
    PrimalDualSegmenter,
    TriangleMesh,
)
from equigeo.mesh.nn.mesh_model import received_attention
from tests.mesh import shapes
from tests.mesh.definitions import assert_close
from tests.mesh.nn.small_models import chiral

NETWORKS = {
    "classifier": (PrimalDualClassifier, {"heads": 2, "keep": (0.7, None, 0.7)}),
    "segmenter": (PrimalDualSegmenter, {"keep": (0.7, 0.7)}),
}


def _network(kind):
    torch.manual_seed(0)
    network, settings = NETWORKS[kind]
    return network.preset("default", 5, channels=(8, 8, 8), **settings).double().eval()


def _by_definition(graph, attention):
    """Face by face, with the sums of the definition."""
    source, target = graph.primal.edge_index.tolist()
    degree = [target.count(face) for face in range(graph.num_primal)]
    sums = [[0.0, 0.0] for _ in degree]
    for s, t, weight in zip(source, target, attention.mean(dim=1).tolist(), strict=True):
        sums[s] = [sums[s][0] + weight, sums[s][1] + 1 / degree[t]]
    return torch.tensor([a / even if even else 1.0 for a, even in sums], dtype=attention.dtype)


@given(shape=shapes.meshes(), seed=st.integers(0, 9))
def test_received_attention_is_that_of_the_definition(shape, seed):
    graph = PrimalDualGraph.from_mesh(shape)
    torch.manual_seed(seed)
    logits = torch.randn(graph.primal.num_edges, 2, dtype=torch.float64)
    _, attention = graph.primal.attend(logits.new_zeros(graph.num_primal, 2, 1), logits)
    assert_close(received_attention(graph, attention), _by_definition(graph, attention))


def test_even_attention_is_one_everywhere_and_other_attention_is_not():
    graph = PrimalDualGraph.from_mesh(chiral())
    even = torch.full((graph.primal.num_edges, 3), 1 / 3, dtype=torch.float64)
    assert_close(received_attention(graph, even), torch.ones(graph.num_primal))
    leaning = even * (1 + torch.rand_like(even))
    assert float((received_attention(graph, leaning) - 1).abs().max()) > 0.1
    with pytest.raises(ValueError, match=r"attention must be \(240, heads\), got \(3, 1\)"):
        received_attention(graph, torch.zeros(3, 1))
    graph = PrimalDualGraph.from_mesh(shapes.two_isolated())
    assert received_attention(graph, torch.zeros(0, 1)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_look_inside_sees_what_the_network_computes(kind):
    model, mesh = _network(kind), chiral()
    calls, logs = [], []
    analysis = model.blocks if kind == "classifier" else [*model.encoder, model.bottleneck]
    for block in analysis:
        last = [m for m in block.modules() if isinstance(m, PrimalDualConv)][-1]
        last.register_forward_hook(lambda m, given, result: calls.append((given[0], result[2])))
    for module in model.modules():
        if isinstance(module, EdgePool):
            module.register_forward_hook(lambda m, given, result: logs.append(result[1].cluster))
    model(mesh)
    expected, logged = [received_attention(*call) for call in calls], list(logs)
    found = model.inspect(mesh)
    assert len(found.attention) == len(expected) == len(analysis)
    first, second = logged[0], logged[1][logged[0]]
    assert all(map(torch.equal, found.clusters, (first, second)))
    for values, own in zip(found.attention, expected, strict=True):
        faces = {len(first): torch.arange(len(first)), int(first.max()) + 1: first}
        assert torch.equal(values, own[faces.get(len(own), second)])
    assert float((found.attention[0] - 1).abs().max()) > 1e-3  # not even: there is something to see


@pytest.mark.parametrize("kind", NETWORKS)
def test_inspection_follows_the_faces_and_the_meshes_of_a_batch(kind):
    model, mesh = _network(kind), chiral()
    order = torch.randperm(mesh.num_faces, generator=torch.Generator().manual_seed(1))
    renumbered = model.inspect(TriangleMesh(mesh.vertices, mesh.faces[order]))
    for found, values in zip(renumbered.attention, model.inspect(mesh).attention, strict=True):
        assert_close(found, values[order], terms=64, condition=1e3)
    several = [mesh, shapes.bowl(), shapes.two_isolated()]
    each = zip(*(model.inspect(one).attention for one in several), strict=True)
    for found, alone in zip(model.inspect(several).attention, each, strict=True):
        assert_close(found, torch.cat(alone), terms=64, condition=1e3)


def test_inspection_keeps_the_state_and_the_head_maps_the_embedding_to_logits():
    model = _network("classifier").train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = model.inspect(chiral())
    assert model.training
    assert not any(values.requires_grad for values in found.attention)
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
    assert repr(found).startswith("Inspection(faces=80, blocks=3, clusters=[")
    model, several = _network("classifier"), [chiral(), shapes.bowl()]
    vectors = model.embed(several)
    assert vectors.shape == (2, model.head[0].num_features)
    assert torch.equal(model.head(vectors), model(several))
    turned = [shapes.turned(mesh, 5) for mesh in several]
    assert_close(model.embed(turned), vectors, terms=64, condition=1e4)
