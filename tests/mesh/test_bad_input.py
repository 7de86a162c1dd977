from pathlib import Path

import numpy as np
import torch
import trimesh

from equigeo import mesh as em
from equigeo.mesh.geometry.half_edges import HalfEdgeGeometry
from equigeo.mesh.geometry.orient import orient
from equigeo.mesh.io.file_mesh import FileMesh
from equigeo.mesh.nn.norm import Standardize
from equigeo.mesh.nn.readout import Readout
from tests.mesh import shapes
from tests.mesh.io.files import off_text
from tests.wrong_inputs import Wrong, refused, wrong_calls

CUBE = shapes.cube()
BOX = trimesh.creation.box()
GRAPH = em.PrimalDualGraph.from_mesh(CUBE)
FEATURES = {"x_primal": torch.randn(12, 5), "x_dual": torch.randn(18, 7)}
CONV = em.PrimalDualConv((5, 7), (4, 3), heads=2, self_term=True, coupling=True)
BLOCK = em.ResidualBlock((5, 7), (4, 4), pool=em.EdgePool(0.5)).eval()
MODEL = em.PrimalDualClassifier.preset("default", 3).eval()
SEGMENTER = em.PrimalDualSegmenter.preset("default", 3).eval()
POOLED, LOG = em.EdgePool(0.5)(GRAPH, torch.rand(36, 1))


def kinds(*names: str, of: str) -> set[str]:
    return {f"{name}: {kind}" for name in names for kind in of.split(", ")}


OTHER = "complex, integers, other dtype, longer, meta, one axis more"
SHAPES = {"shapes": GRAPH}
MESH = {"shapes": "mesh"}
CALLS: list[Wrong] = [
    *wrong_calls(CONV, {"graph": GRAPH} | FEATURES),
    *wrong_calls(BLOCK, {"graph": GRAPH} | FEATURES),
    *wrong_calls(MODEL, SHAPES, names=MESH),
    *wrong_calls(SEGMENTER, SHAPES, names=MESH),
    *wrong_calls(SEGMENTER.clusters, {"graph": GRAPH}),
    *wrong_calls(MODEL.clusters, {"graph": GRAPH}),
    *wrong_calls(MODEL.inspect, SHAPES, names=MESH),
    *wrong_calls(MODEL.embed, SHAPES, names=MESH),
    *wrong_calls(MODEL.graph, {"mesh": CUBE}),
    *wrong_calls(orient, {"mesh": CUBE}),
    *wrong_calls(em.PrimalDualGraph.from_mesh, {"mesh": CUBE}),
    *wrong_calls(em.EdgePool(0.5), {"graph": GRAPH, "attention": torch.rand(36, 2)},
                 fine=kinds("attention", of="integers, other dtype, wider")),
    *wrong_calls(GRAPH.with_features, FEATURES,
                 names={name: f"{name}|features" for name in FEATURES},
                 fine=kinds(*FEATURES, of="complex, integers, other dtype, wider, meta")),
    *wrong_calls(em.TriangleMesh, {"vertices": CUBE.vertices, "faces": CUBE.faces},
                 fine=kinds("vertices", of="longer, other dtype") | {"faces: longer"}),
    *wrong_calls(CUBE.act, {"g": torch.eye(3)}, fine=kinds("g", of="integers, other dtype")),
    *wrong_calls(
        em.unpool,
        {"log": LOG, "x_primal": POOLED.x_primal, "x_dual": POOLED.x_dual, "fill": torch.zeros(8)},
        names={"x_dual": "x_dual|fill"},
        fine=kinds("x_primal", "x_dual", "fill", of=OTHER) | {"x_primal: wider"},
    ),
]  # fmt: skip


def test_a_wrong_argument_gives_one_sentence_that_names_it() -> None:
    for wrong in CALLS:
        wrong.check()


BATCHED = "graphs must be united by PrimalDualGraph.batch, got several"
FROM_TRIMESH = "mesh must be a TriangleMesh, got Trimesh: use TriangleMesh.from_trimesh"
X_PRIMAL, X_DUAL = FEATURES.values()
NARROW = MODEL.graph(CUBE).with_features(torch.zeros(12, 3), GRAPH.x_dual)


def test_wrong_types_and_shapes_raise():
    for row in (  # an argument of another kind, and how it becomes one of the right kind
        (FROM_TRIMESH, em.PrimalDualGraph.from_mesh, BOX),
        (FROM_TRIMESH, MODEL, BOX),
        (BATCHED, MODEL, [GRAPH]),
        ("mesh must be a trimesh.Trimesh or a trimesh", em.TriangleMesh.from_trimesh, CUBE),
        ("got TrackedArray", em.TriangleMesh.from_trimesh, BOX.vertices),
        ("path must be a str or a PathLike, got None", em.load_mesh, None),
        ("path must be a str or a PathLike, got int", em.load_mesh, 3),
        ("path must be a str or a PathLike, got bytes", em.load_mesh, b"a.obj"),
        ("graph must be a PrimalDualGraph, got Triangle", em.PrimalDualGraph.batch, [CUBE]),
        ("config must be a ClassifierConfig", em.PrimalDualClassifier, {"num_classes": 3}),
        ("config must be a SegmenterConfig", em.PrimalDualSegmenter, {"num_classes": 3}),
    ):
        refused(*row, error=TypeError)
    for row in (
        (r"x_primal must be \(12, 5\), got \(12, 31\)", CONV, GRAPH, torch.zeros(12, 31), X_DUAL),
        (r"x_dual must be \(18, 7\), got \(18, 31\)", CONV, GRAPH, X_PRIMAL, torch.zeros(18, 31)),
        (r"graph.x_primal must be \(nodes, 29\), got \(12, 3\)", MODEL, NARROW),
        ("graph must be on cpu as the model is, got meta", MODEL, MODEL.graph(CUBE).to("meta")),
        (r"x must be \(nodes, 3\), got \(2, 4\)", Standardize(3), torch.zeros(2, 4)),
        ("mesh must be a scene with a mesh, got one of 0 others", em.TriangleMesh.from_trimesh,
         trimesh.Scene()),
        ("vertices and faces must have values, got meta", em.TriangleMesh, CUBE.vertices.to("meta"),
         CUBE.faces),
    ):  # fmt: skip
        refused(*row)


def test_objects_show_what_they_are_and_not_thousands_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "file.off"
    path.write_bytes(off_text())
    objects = {
        "TriangleMesh(vertices=8, faces=12)": CUBE,
        "PrimalDualGraph(graphs=1, dual='single', features='invariant', x_primal=(12, 1), "
        "x_dual=(18, 8), primal edges=36, dual edges=72)": GRAPH,
        f"PoolLog(faces=12, clusters={len(POOLED.x_primal)}, contracted={LOG.num_contracted}, "
        f"refused={LOG.num_refused})": LOG,
        "LoadReport(file.off: 5 vertices, 6 faces -> 5 vertices, 6 triangles; closed, oriented, "
        "manifold, components 1, Euler characteristic 2)": em.load_mesh(path)[1],
        "FileMesh(vertices=(4, 3) float64, corners=(4,) int64, sizes=(1,) int64, first_index=0, "
        "warnings=(), attributes=FileAttributes())": FileMesh(
            np.eye(4, 3), np.arange(4), np.array([4])
        ),
    }
    for text, shown in objects.items():
        assert repr(shown) == text
    half_edges = HalfEdgeGeometry.measure(CUBE.vertices, CUBE.faces)
    for shown in (GRAPH.surface, half_edges, GRAPH.primal, Readout("both", ("mean",))):
        assert len(repr(shown)) < 400
