import sys
import warnings
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.graphs import EdgeIndex
from equigeo.interop import pyg
from equigeo.interop.pyg.meshes import batch_to_ptr, ptr_to_batch, triangle_meshes
from equigeo.mesh import DualKind, PrimalDualGraph, TriangleMesh
from tests.wrong_inputs import refused

with warnings.catch_warnings():  # torch_geometric scripts functions while it is imported
    warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
    torch_geometric = pytest.importorskip(
        "torch_geometric", reason="needs pip install torch-geometric"
    )
    from torch_geometric.data import Batch, Data, HeteroData

TETRAHEDRON = TriangleMesh(
    torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]),
)
SQUARE = TriangleMesh(
    torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 1, 0.5], [0, 1, 0]]),
    torch.tensor([[0, 1, 2], [0, 2, 3]]),
)
EDGES = torch.tensor([[0, 3, 2, 2], [1, 0, 1, 3]])


def same(a: EdgeIndex, b: EdgeIndex) -> None:
    assert (a.num_sources, a.num_targets) == (b.num_sources, b.num_targets)
    assert a.edge_index.equal(b.edge_index)
    assert a.ptr.equal(b.ptr)


def test_edges_are_read_from_tensors_data_batches_and_their_own_class():
    for source in (
        EDGES,
        Data(edge_index=EDGES, num_nodes=4),
        Data(edge_index=EDGES, pos=torch.zeros(4, 3)),
        torch_geometric.EdgeIndex(EDGES),
        torch_geometric.EdgeIndex(EDGES, sparse_size=(4, 4)),
    ):
        edges = pyg.edge_index(source)
        same(edges, EdgeIndex.from_edges(EDGES))
        assert type(edges.edge_index) is torch.Tensor
    one = Data(edge_index=EDGES, num_nodes=7)  # some without edges
    assert pyg.edge_index(one).num_targets == 7
    assert pyg.edge_index(EDGES, size=(5, 6)).num_sources == 5
    assert pyg.edge_index(torch_geometric.EdgeIndex(EDGES, sparse_size=(8, 9))).num_targets == 9
    union = EdgeIndex.disjoint_union([pyg.edge_index(one)] * 3)
    same(pyg.edge_index(Batch.from_data_list([one] * 3)), union)
    two_kinds = HeteroData()
    two_kinds["a"].x, two_kinds["b"].x = torch.zeros(5, 1), torch.zeros(4, 1)
    two_kinds["a", "to", "b"].edge_index = EDGES
    edges = pyg.edge_index(two_kinds["a", "to", "b"])
    assert (edges.num_sources, edges.num_targets) == (5, 4)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_edges_go_there_and_back(pairs):
    edges = EdgeIndex.from_edges(torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T, 6, 6)
    same(pyg.edge_index(pyg.to_data(edges)), edges)
    theirs = pyg.to_edge_index(edges).validate()
    assert theirs.is_sorted_by_col == edges.is_sorted
    same(pyg.edge_index(theirs), edges)


def test_sums_over_edges_agree_with_message_passing():
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    conv = torch_geometric.nn.SimpleConv(aggr="sum")
    torch.testing.assert_close(pyg.edge_index(EDGES).sum(x), conv(x, EDGES))


def test_meshes_and_batches_of_them_go_there_and_back():
    data = pyg.to_data(TETRAHEDRON)
    data.validate()
    assert data.pos.dtype == torch.get_default_dtype()
    back = pyg.triangle_mesh(data)
    assert back.faces.equal(TETRAHEDRON.faces)
    assert back.vertices.equal(TETRAHEDRON.vertices)
    batch = Batch.from_data_list([data, pyg.to_data(SQUARE)])
    first, second = triangle_meshes(batch)
    assert first.faces.equal(TETRAHEDRON.faces)
    assert second.faces.equal(SQUARE.faces)
    assert pyg.triangle_mesh(batch).faces[4:].equal(SQUARE.faces + 4)


def equal(a: PrimalDualGraph, b: PrimalDualGraph) -> None:
    same(a.primal, b.primal)
    same(a.dual_edges, b.dual_edges)
    assert (a.dual, a.features, a.num_graphs) == (b.dual, b.features, b.num_graphs)
    names = ("x_primal", "x_dual", "undirected", "to_undirected", "edge_to_dual")
    for name in (*names, "primal_batch", "dual_batch"):
        assert getattr(a, name).equal(getattr(b, name)), name


@pytest.mark.parametrize("dual", DualKind)
def test_the_two_graphs_are_built_from_meshes_and_go_there_and_back(dual):
    meshes = (TETRAHEDRON, SQUARE, TETRAHEDRON)
    graphs = [PrimalDualGraph.from_mesh(mesh, dual) for mesh in meshes]
    union = PrimalDualGraph.batch(graphs)
    equal(pyg.primal_dual_graph(pyg.to_data(SQUARE), dual), graphs[1])
    batch = Batch.from_data_list([pyg.to_data(mesh) for mesh in meshes])
    equal(pyg.primal_dual_graph(batch, dual), union)
    data = [pyg.to_data(graph) for graph in graphs]
    for graph, each in zip(graphs, data, strict=True):
        each.validate()
        equal(pyg.primal_dual_graph(each), graph)
    equal(pyg.primal_dual_graph(Batch.from_data_list(data)), union)
    equal(pyg.primal_dual_graph(pyg.to_data(union)), union)


def test_graphs_that_were_changed_are_refused():
    data = pyg.to_data(PrimalDualGraph.from_mesh(TETRAHEDRON))
    with pytest.raises(ValueError, match=r"with DualKind\.DOUBLE_DIRECTED"):
        pyg.primal_dual_graph(data, DualKind.DOUBLE_DIRECTED)
    data["primal", "adjacent", "primal"].edge_index = torch.tensor([[0, 1], [1, 0]])
    refused("edges are not those", pyg.primal_dual_graph, data)
    union = PrimalDualGraph.batch([PrimalDualGraph.from_mesh(SQUARE)] * 2)
    with pytest.raises(ValueError, match=r"must be of single graphs, got numbers \[2, 2\]"):
        pyg.primal_dual_graph(Batch.from_data_list([pyg.to_data(union)] * 2))


@given(st.lists(st.integers(0, 3), max_size=6))
def test_batches_and_offsets_are_one_another(sizes):
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    batch = ptr_to_batch(ptr)
    assert batch.tolist() == [g for g, size in enumerate(sizes) for _ in range(size)]
    assert batch_to_ptr(batch, len(sizes)).equal(ptr)


def test_bad_arguments_are_named():
    flat = Data(pos=torch.zeros(3, 3), face=torch.zeros(1, 3))
    bipartite = EdgeIndex.from_edges(EDGES, 4, 5)
    for kind, message, call, *arguments in (
        (ValueError, "batch must ascend", batch_to_ptr, torch.tensor([1, 0])),
        (ValueError, "batch must ascend", batch_to_ptr, torch.tensor([-1, 0])),
        (ValueError, r"in \[0, 3\), got 3", batch_to_ptr, torch.tensor([0, 3]), 3),
        (TypeError, "batch must be int64", batch_to_ptr, torch.tensor([0.0])),
        (ValueError, "ptr must be one-dimensional", ptr_to_batch, torch.tensor([[0]])),
        (ValueError, "ptr must be offsets", ptr_to_batch, torch.tensor([0, 3, 2])),
        (TypeError, "object with edge_index, got Data", pyg.edge_index, Data()),
        (ValueError, "targets of edge_index must lie", partial(pyg.edge_index, size=(4, 2)), EDGES),
        (TypeError, "expected Data with pos and face", pyg.triangle_mesh, Data()),
        (ValueError, r"face must be \(3, faces\), got \(1, 3\)", pyg.triangle_mesh, flat),
        (TypeError, "expected an EdgeIndex, .* got Tensor", pyg.to_data, EDGES),
        (ValueError, "the edges join 4 sources and 5 targets", pyg.to_data, bipartite),
    ):
        refused(message, call, *arguments, error=kind)


def test_a_missing_library_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(ImportError, match=r"cannot be imported: pip install torch-geometric$"):
        pyg.to_data(TETRAHEDRON)
    assert pyg.edge_index(EDGES).num_edges == 4
