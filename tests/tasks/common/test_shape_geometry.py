import json

import torch

from equigeo.mesh import PrimalDualClassifier, TriangleMesh
from equigeo.tasks.common.shapes import report_facts, shape_geometry
from tests.mesh.shapes import icosphere


def test_geometry_is_json_with_a_cluster_a_face_and_pooling():
    torch.manual_seed(0)
    mesh = icosphere(3)
    model = PrimalDualClassifier.preset("default", 2).eval()
    shape = shape_geometry(model, "ball.off", mesh)
    assert json.loads(json.dumps(shape)) == shape
    assert shape["name"] == "ball.off"
    vertices = torch.tensor(shape["vertices"])
    # half a unit of the fifth digit of numbers below one
    assert torch.allclose(vertices, mesh.vertices.to(torch.float32), rtol=0, atol=5.1e-6)
    assert torch.equal(torch.tensor(shape["faces"]), mesh.faces)
    assert [len(level) for level in shape["levels"]] == [len(mesh.faces)] * len(shape["levels"])
    assert len({*shape["levels"][-1]}) < len(mesh.faces)  # something was merged at all
    seen = model.inspect(mesh).attention
    assert len(shape["attention"]) == len(model.blocks)
    for shown, values in zip(shape["attention"], seen, strict=True):
        # half a unit of the third decimal
        assert torch.allclose(torch.tensor(shown), values, rtol=0, atol=5.01e-4)


def test_a_mesh_far_from_the_origin_is_drawn_as_near_to_it():
    mesh, model = icosphere(2), PrimalDualClassifier.preset("default", 2).eval()
    unused = torch.full((1, 3), -1e12, dtype=torch.float64)
    far = TriangleMesh(torch.cat([mesh.vertices + 1e6, unused]), mesh.faces)
    got = torch.tensor(shape_geometry(model, "far", far)["vertices"])[:-1]
    # half a unit of the fifth digit, and of the eleventh of what the offset left
    assert torch.allclose(got, mesh.vertices.float(), rtol=0, atol=1e-5)


def test_every_line_of_a_load_report_is_a_fact_with_its_name():
    lines = ["a.off: 8 vertices", "closed", "polygons: 2", "welded: 4"]
    assert report_facts("\n".join(lines)) == [
        ("file", lines[0]),
        ("surface", lines[1]),
        ("repair", lines[2]),
        ("repair", lines[3]),
    ]
    assert report_facts("a.off: 3 vertices") == [("file", "a.off: 3 vertices")]
