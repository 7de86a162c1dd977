"""Reading one vector per mesh from the nodes of both graphs."""

import pytest
import torch

from equigeo.mesh import DualKind, EdgePool, PrimalDualGraph
from equigeo.mesh.models.readout import Readout, _Groups, group_mean
from tests.mesh import shapes
from tests.mesh.definitions import F64, assert_close, random_graph

STREAMS = ("dual", "primal", "both")


def _parts():
    several = (shapes.bowl(), shapes.triangle(), shapes.cube(), shapes.two_isolated())
    return [random_graph(seed, shape=shape) for seed, shape in enumerate(several)]


def _largest(x):
    (found,) = _Groups(torch.zeros(len(x), dtype=torch.int64), 1).largest(x)
    return found


@pytest.mark.parametrize("streams", STREAMS)
@pytest.mark.parametrize("statistics", [("mean",), ("max",), ("mean", "max")])
def test_statistics_are_those_of_each_mesh_alone(streams, statistics):
    parts = _parts()
    vector = Readout(streams, statistics)(PrimalDualGraph.batch(parts))
    for row, part in zip(vector, parts, strict=True):
        expected = []
        for x in {"dual": [part.x_dual], "primal": [part.x_primal]}.get(
            streams, [part.x_primal, part.x_dual]
        ):
            for name in statistics:
                empty = torch.zeros(x.shape[1], dtype=F64)
                reduced = (x.mean(dim=0) if name == "mean" else x.amax(dim=0)) if len(x) else empty
                expected.append(reduced)
        assert_close(row, torch.cat(expected), terms=256)


@pytest.mark.parametrize("streams", STREAMS)
def test_the_announced_width_is_the_width(streams):
    readout = Readout(streams, ("mean", "max"))
    assert readout(_parts()[0]).shape == (1, readout.width(primal=3, dual=4))


def test_a_mesh_without_nodes_reads_zero_in_any_place():
    empty = random_graph(0, shape=shapes.mesh(torch.zeros(1, 3), []))
    full = random_graph(1, shape=shapes.cube())
    readout = Readout("both", ("mean", "max"))
    vector = readout(PrimalDualGraph.batch([empty, full, empty]))
    assert not bool(vector[[0, 2]].any())
    assert torch.equal(vector[1:2], readout(full))


@pytest.mark.parametrize("dual", list(DualKind))
def test_a_mesh_pooled_to_one_node_gives_no_nan_and_no_nan_gradient(dual):
    graph = random_graph(0, dual=dual, shape=shapes.icosahedron())
    x_primal = graph.x_primal.requires_grad_()
    pooled, _ = EdgePool(keep=0.0)(graph, torch.rand(graph.primal.num_edges, 1))
    vector = Readout("both", ("mean", "max"))(pooled)
    assert bool(torch.isfinite(vector).all())
    vector.sum().backward()
    assert bool(torch.isfinite(x_primal.grad).all())


def test_negative_features_keep_their_maximum():
    graph = random_graph(0, shape=shapes.cube())
    graph = graph.with_features(graph.x_primal - 100, graph.x_dual - 100)
    assert bool((Readout("both", ("max",))(graph) < -90).all())


def test_unknown_streams_and_statistics_are_refused():
    with pytest.raises(ValueError, match=r"streams must be one of.*'all'"):
        Readout("all", ("mean",))
    with pytest.raises(ValueError, match=r"statistics must be among.*'median'"):
        Readout("both", ("median",))
    with pytest.raises(ValueError, match="statistics must be among"):
        Readout("both", ())


@pytest.mark.parametrize("rows", [1, 255, 256, 512, 513, 1000, 2048])
def test_the_largest_of_many_rows_and_its_gradient_are_those_of_torch(rows):
    # Few distinct values: many rows share the largest, and the first of them gets the gradient.
    x = torch.randint(0, 4, (rows, 5)).double()
    x[:, 4] = 0.0
    x.requires_grad_()
    found, expected = _largest(x), x.max(dim=0).values
    assert torch.equal(found, expected)
    weight = torch.randn(5, dtype=torch.float64)
    ours, theirs = (torch.autograd.grad(y @ weight, x)[0] for y in (found, expected))
    assert torch.equal(ours, theirs)
    assert bool(ours.any())


def test_a_number_that_is_none_is_the_largest():
    x = torch.zeros(1000, 2)
    x[700, 1] = torch.nan
    assert _largest(x).isnan().tolist() == [False, True]


COUNTS = {
    "even": [70, 70, 70],
    "uneven": [50, 64, 33, 1],
    "with meshes without rows": [0, 90, 0, 71, 0],
    "one large mesh among small ones": [5, 0, 400, 1, 0],
    "without rows": [0, 0],
}


@pytest.mark.parametrize("counts", list(COUNTS.values()), ids=list(COUNTS))
def test_meshes_of_a_batch_have_what_each_has_alone(counts):
    generator = torch.Generator().manual_seed(0)
    # few different numbers: many rows have the largest
    x = torch.randint(4, (sum(counts), 5), generator=generator).double().requires_grad_()
    weight = torch.rand(len(x), generator=generator, dtype=torch.float64)
    batch = torch.repeat_interleave(torch.tensor(counts))
    groups = _Groups(batch, len(counts))
    zero = x.new_zeros(5)
    parts = x.split(counts)
    alone = torch.stack([part.max(dim=0).values if len(part) else zero for part in parts])
    arriving = torch.randn(alone.shape, generator=generator, dtype=torch.float64)
    assert torch.equal(groups.largest(x), alone)
    if len(x):
        slopes = [torch.autograd.grad(y, x, arriving)[0] for y in (groups.largest(x), alone)]
        assert torch.equal(*slopes)
    for w in (None, weight):
        assert_close(groups.mean(x, w), group_mean(x, batch, len(counts), w), terms=500)
