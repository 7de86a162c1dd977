"""Programs of mesh networks, for other meshes than they were recorded with."""

import json
import shutil
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch.testing import assert_close
from torch.utils import _pytree

from equigeo.interop import decompose_ops
from equigeo.mesh import (
    EdgePool,
    PrimalDualClassifier,
    PrimalDualGraph,
    PrimalDualSegmenter,
    TriangleMesh,
    compile_package,
    export_program,
)
from equigeo.ops import kernels_info
from equigeo.testing import tolerance
from tests.mesh import shapes
from tests.tier import tier
from tests.wrong_inputs import refused

KINDS = {"classifier": PrimalDualClassifier, "segmenter": PrimalDualSegmenter}
ALONE = {"channels": (8, 8), "keep": (None, None)}
SMALL = {"classifier": ALONE, "segmenter": {"channels": (8, 8), "keep": (None,)}}
OPTIONS = [
    ("classifier", {}),
    ("segmenter", {"outputs_at": "vertices"}),
    ("segmenter", {"outputs_at": "edges", "sizes": ("area",), "inputs": ("heat",)}),
]
MORE = [
    ("classifier", {"hidden": 8, "sizes": ("volume",), "means": (1.0,) * 3,
                    "deviations": (2.0,) * 3}),
    ("classifier", {"dual": "double_directed", "heads": 2, "norm": "group", "coupling": True}),
    ("segmenter", {}),
    ("segmenter", {"outputs_at": "mesh", "dual": "double_undirected", "features": "reference"}),
    ("segmenter", {"convolve_outputs": True, "heads": 2}),
]  # fmt: skip


def several():
    """Meshes closed and open, of one and several parts, with other sizes than the examples."""
    ball = shapes.icosphere(1)
    half = TriangleMesh(ball.vertices, ball.faces[:31])
    both = shapes.union(ball, shapes.moved(ball, (3.0, 0.0, 0.0)))
    found = [shapes.tetrahedron(), shapes.cube(), ball, half, both]
    for i, mesh in enumerate(found):
        heat = torch.linspace(-1, 1, mesh.num_faces).double()
        found[i] = replace(mesh, inputs={"heat": heat})
    return found


@cache
def network(kind, dtype=torch.float64, **options):
    torch.manual_seed(0)
    model = KINDS[kind].preset("default", 3, **SMALL[kind] | options).to(dtype)
    graphs = [model.graph(mesh) for mesh in several()]
    model.fit_standardization(graphs)
    model(PrimalDualGraph.batch(graphs))  # statistics of norms
    return model.eval()


@cache
def program_of(kind, dtype=torch.float64, **options):
    return export_program(network(kind, dtype, **options))


def same(dtype):
    return tolerance(dtype, terms=2**10)


@pytest.mark.parametrize(("kind", "options"), tier(OPTIONS, OPTIONS + MORE), ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_programs_are_right_for_meshes_of_any_size(kind, options, dtype):
    model, program = network(kind, dtype, **options), program_of(kind, dtype, **options).module()
    for mesh in several():
        graph = model.graph(mesh)
        assert_close(program(graph), model(graph).detach(), **same(dtype))


def test_a_program_is_saved_and_loaded(tmp_path):
    model, program = network("classifier"), program_of("classifier")
    torch.export.save(program, tmp_path / "shapes.pt2")
    loaded, graph = torch.export.load(tmp_path / "shapes.pt2").module(), model.graph(shapes.cube())
    assert_close(loaded(graph), model(graph).detach(), **same(torch.float64))


def test_a_program_without_ops_of_this_library_is_the_same():
    model, program = network("classifier"), decompose_ops(program_of("classifier"))
    assert "equigeo" not in str(program.graph)
    for mesh in several():
        graph = model.graph(mesh)
        assert_close(program.module()(graph), model(graph).detach(), **same(torch.float64))


def test_a_program_has_its_own_weights():
    model = network("classifier", channels=(4,), keep=(None,))
    program, graph = export_program(model).module(), model.graph(shapes.cube())
    want = model(graph).detach()
    model.head[-1].weight.data.zero_()
    assert_close(program(graph), want, **same(torch.float64))


def test_other_graphs_are_refused():
    model, program = network("classifier"), program_of("classifier").module()
    graph = model.graph(shapes.cube())
    two, other = PrimalDualGraph.batch([graph, graph]), PrimalDualGraph.from_mesh(shapes.cube())
    pair = TriangleMesh(torch.eye(4, 3).double(), shapes.tetrahedron().faces[:2])  # one adjacency
    for wrong in (two, other, graph.to(torch.float32), model.graph(pair)):
        with pytest.raises((ValueError, RuntimeError, AssertionError)):
            program(wrong)


def test_what_cannot_be_exported_is_refused_and_leaves_nothing(tmp_path):
    pooled = PrimalDualClassifier.preset("default", 3).eval()
    path = tmp_path / "shapes.pt2"
    for call in (export_program, lambda model: compile_package(model, path)):
        refused(
            r"EdgePool cannot be exported.*keep=\(None", call, pooled, error=NotImplementedError
        )
        refused("must be a mesh network, got Linear", call, torch.nn.Linear(1, 1), error=TypeError)
        refused(r"eval mode.*model\.eval", call, pooled.train())
        pooled.eval()
    refused(r"must end in \.pt2", compile_package, network("classifier"), tmp_path / "shapes.so")
    assert not [*tmp_path.iterdir()]


@pytest.mark.skipif(kernels_info()["cpu"] is None, reason="no compiled kernels")
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", tier([torch.float32], [torch.float32, torch.float64]))
def test_a_package_is_right_for_meshes_of_any_size(dtype, tmp_path):
    model = network("classifier", dtype)
    run = torch._inductor.aoti_load_package(str(compile_package(model, tmp_path / "shapes.pt2")))
    metadata = run.get_metadata()
    assert metadata["dtype"] == str(dtype).removeprefix("torch.")
    assert PrimalDualClassifier.from_config(json.loads(metadata["config"])).config == model.config
    for mesh in several():
        graph = model.graph(mesh)
        assert_close(run(graph), model(graph).detach(), **same(dtype))


def test_a_graph_is_a_structure_of_tensors():
    graph = network("segmenter", sizes=("area",), inputs=("heat",)).graph(several()[2])
    leaves, form = _pytree.tree_flatten(graph)
    assert all(isinstance(leaf, torch.Tensor) for leaf in leaves)
    again = _pytree.tree_unflatten([leaf.clone() for leaf in leaves], form)
    assert again.kind == graph.kind
    assert (again.num_graphs, again.surface.num_edges) == (1, graph.surface.num_edges)
    assert again.primal.num_sources == graph.num_primal
    assert _pytree.treespec_loads(_pytree.treespec_dumps(form)) == form
    assert _pytree.tree_structure(graph.to(torch.float32)) == form
    pooled, _ = EdgePool(keep=0.5)(graph, torch.rand(graph.primal.num_edges, 1))
    assert _pytree.tree_structure(pooled) != form
