"""Unpooling undoes what pooling did to places, not to values."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh import DualKind, EdgePool, unpool
from equigeo.mesh.pooling.contraction import contract
from tests.mesh import shapes
from tests.mesh.definitions import F64, assert_close, random_graph

KINDS = list(DualKind)


def _pooled(shape, seed, dual=DualKind.SINGLE, keep=0.6):
    graph = random_graph(seed, dual=dual, shape=shape)
    random = np.random.default_rng(seed)
    attention = torch.as_tensor(random.random((graph.primal.num_edges, 1)))
    return (graph, *EdgePool(keep)(graph, attention))


@given(st.sampled_from(KINDS), shapes.meshes(), shapes.seeds)
def test_every_face_receives_the_mean_of_its_cluster_and_lost_pairs_the_fill(dual, shape, seed):
    graph, pooled, log = _pooled(shape, seed, dual)
    fill = torch.arange(4, dtype=F64)
    restored, x_primal, x_dual = unpool(log, pooled.x_primal, pooled.x_dual, fill)
    assert restored is graph
    for c in range(pooled.num_primal):
        members = log.cluster == c
        mean = graph.x_primal[members].mean(dim=0)
        assert_close(x_primal[members], mean.expand(int(members.sum()), -1), terms=16)
    lost = log.dual_to_new < 0
    assert torch.equal(x_dual[lost], fill.expand(int(lost.sum()), -1))
    assert torch.equal(x_dual[~lost], pooled.x_dual[log.dual_to_new[~lost]])


@given(shapes.meshes(), shapes.seeds, st.sampled_from(KINDS))
def test_pooling_what_was_unpooled_changes_nothing(shape, seed, dual):
    graph = random_graph(seed, dual=dual, shape=shape)
    marked = torch.as_tensor(np.random.default_rng(seed).random(len(graph.undirected)) < 0.3)
    pooled, cluster, dual_to_new = contract(graph, marked)
    x_primal = pooled.x_primal[cluster]
    survives = dual_to_new >= 0
    x_dual = graph.x_dual.clone()
    x_dual[survives] = pooled.x_dual[dual_to_new[survives]]
    again, _, _ = contract(graph.with_features(x_primal, x_dual), marked)
    assert_close(again.x_primal, pooled.x_primal, terms=16)
    assert_close(again.x_dual, pooled.x_dual, terms=16)


def test_when_nothing_was_contracted_unpooling_is_the_identity():
    graph, pooled, log = _pooled(shapes.bowl(), 0, keep=1.0)
    _, x_primal, x_dual = unpool(log, pooled.x_primal, pooled.x_dual, torch.zeros(4, dtype=F64))
    assert torch.equal(x_primal, graph.x_primal)
    assert torch.equal(x_dual, graph.x_dual)


@pytest.mark.parametrize("dual", KINDS)
def test_when_everything_was_contracted_every_pair_receives_the_fill(dual):
    graph, pooled, log = _pooled(shapes.icosahedron(), 0, dual, keep=0.0)
    fill = torch.arange(4, dtype=F64)
    _, x_primal, x_dual = unpool(log, pooled.x_primal, pooled.x_dual, fill)
    assert torch.equal(x_primal, pooled.x_primal.expand(20, -1))
    assert torch.equal(x_dual, fill.expand(graph.num_dual, -1))


def test_two_levels_unpool_to_the_composed_clusters():
    graph, pooled, log = _pooled(shapes.bowl(), 0)
    attention = torch.as_tensor(np.random.default_rng(1).random((pooled.primal.num_edges, 1)))
    coarse, coarse_log = EdgePool(0.6)(pooled, attention)
    fill = torch.zeros(4, dtype=F64)
    middle, x_primal, x_dual = unpool(coarse_log, coarse.x_primal, coarse.x_dual, fill)
    assert middle is pooled
    restored, x_primal, _ = unpool(log, x_primal, x_dual, fill)
    assert restored is graph
    assert torch.equal(x_primal, coarse.x_primal[coarse_log.cluster[log.cluster]])


def test_gradients_reach_the_clusters_and_the_fill():
    graph, pooled, log = _pooled(shapes.bowl(), 0)
    x_primal, x_dual = (x.clone().requires_grad_() for x in (pooled.x_primal, pooled.x_dual))
    fill = torch.zeros(4, dtype=F64, requires_grad=True)
    _, wide_primal, wide_dual = unpool(log, x_primal, x_dual, fill)
    (wide_primal.sum() + wide_dual.sum()).backward()
    sizes = torch.bincount(log.cluster).double()
    assert_close(x_primal.grad, sizes[:, None].expand_as(x_primal))
    assert_close(fill.grad, torch.full((4,), float((log.dual_to_new < 0).sum())))
    assert x_dual.grad.sum() + fill.grad.sum() == 4 * graph.num_dual
