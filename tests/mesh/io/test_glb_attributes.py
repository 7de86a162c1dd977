import numpy as np
import pytest
import trimesh

from equigeo.mesh.errors import MeshError
from equigeo.mesh.io.glb_attributes import GlbAttributes
from equigeo.mesh.io.read_glb import read_glb
from tests.mesh.io.attributed_texts import COLORS, NORMALS, UV, glb_attributed

IDENTITY = np.eye(4)


def test_vertices_keep_their_values() -> None:
    found = read_glb(glb_attributed()).attributes
    assert not found.corners
    assert found.warnings == ()
    order = [0, 3, 2, 1, 4]  # whatever the order: by position
    mesh = read_glb(glb_attributed())
    order = [
        int((mesh.vertices == v).all(1).argmax()) for v in np.r_[np.eye(4, 3, -1), [[1, 1, 1]]]
    ]
    np.testing.assert_array_equal(found.vertices["color"][order], COLORS[[0, 1, 2, 3, 4]])
    np.testing.assert_array_equal(found.vertices["uv"][order], UV)
    np.testing.assert_array_equal(found.vertices["normal"][order], NORMALS)


def test_a_box_with_a_normal_for_each_side_has_them_at_corners() -> None:
    box = trimesh.creation.box()
    flat = trimesh.Trimesh(box.vertices[box.faces].reshape(-1, 3), process=False)
    flat = trimesh.Trimesh(
        flat.vertices, np.arange(36).reshape(-1, 3),
        vertex_normals=np.repeat(box.face_normals, 3, axis=0), process=False,
    )  # fmt: skip
    mesh = read_glb(trimesh.Scene([flat]).export(file_type="glb", include_normals=True))
    assert (len(mesh.vertices), mesh.num_faces) == (8, 12)
    corners = mesh.vertices[mesh.corners].reshape(-1, 3, 3)
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    expected = np.repeat(cross / np.linalg.norm(cross, axis=1, keepdims=True), 3, axis=0)
    np.testing.assert_allclose(mesh.attributes.corners["normal"], expected, atol=1e-6)  # float32


TURN = {"rotation": [0.5, 0.5, 0.5, 0.5]}  # x to y to z to x


@pytest.mark.parametrize(
    ("node", "matrix"),
    [
        (TURN, [[0, 0, 1], [1, 0, 0], [0, 1, 0]]),
        ({"scale": [2, 4, 8]}, np.diag([0.5, 0.25, 0.125])),  # the inverse transpose
        ({"scale": [-1, 1, 1]}, np.diag([-1, 1, 1])),
        ({"translation": [1, 2, 3]}, np.eye(3)),
    ],
)
def test_normals_turn_with_their_node(node: dict[str, object], matrix) -> None:
    at_rest = read_glb(glb_attributed())
    moved = read_glb(glb_attributed(**node))
    expected = at_rest.attributes.vertices["normal"] @ np.asarray(matrix, float).T
    if "translation" not in node:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    # vertices are in the order of their first appearance in both
    np.testing.assert_allclose(moved.attributes.vertices["normal"], expected, atol=1e-12)


def test_a_flat_node_leaves_normals_of_length_zero_or_one() -> None:
    reader = GlbAttributes(lambda number, kinds: np.eye(3))
    found = reader.of_part({"NORMAL": 0}, 3, np.diag([1.0, 1, 0, 1]))["normal"]
    assert np.isfinite(found).all()


def refuse(number: object, kinds: tuple[str, ...]):
    raise MeshError("is broken")


@pytest.mark.parametrize(
    ("read", "key", "message"),
    [
        (refuse, "NORMAL", "normal of a mesh is left out: the file is broken"),
        (lambda *_: np.eye(2), "NORMAL", "normal of a mesh is left out: not one for each vertex"),
        (lambda *_: -np.eye(3), "COLOR_0", "color of a mesh is left out: out of range"),
    ],
)
def test_malformed_ones_are_left_out_with_one_warning(read, key: str, message: str) -> None:
    reader = GlbAttributes(read)
    assert reader.of_part({key: 0}, 3, IDENTITY) == {}
    assert reader.warnings == (message,)


def test_a_broken_accessor_leaves_the_mesh() -> None:
    good = glb_attributed()
    mesh = read_glb(good.replace(b'"VEC2"', b'"MAT2"'))
    assert mesh.num_faces == 6
    assert sorted(mesh.attributes.vertices) == ["color", "normal"]
    (warning,) = mesh.attributes.warnings
    assert warning.startswith("uv of a mesh is left out: the file has an accessor that is no VEC2")


def test_attributes_that_are_not_read_are_told_but_not_by_the_thousand() -> None:
    reader = GlbAttributes(refuse)
    assert reader.wanted({"POSITION": 0} | {f"_{k}": k for k in range(1000)}) == {}
    assert len(reader.warnings) == 6
    assert reader.warnings[0] == "not read: attribute '_0'"
    assert reader.warnings[-1] == "995 more attributes are not read"


def test_a_scene_beyond_the_limit_is_read_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equigeo.mesh.io.read_glb.MAX_SCENE", 60)
    monkeypatch.setattr("equigeo.mesh.io.read_glb._LEAST", 1)
    # 5 vertices and 18 corners: 59, and with three attributes 74
    mesh = read_glb(glb_attributed())
    assert mesh.num_faces == 6
    assert not mesh.attributes
    assert "too large for its attributes" in mesh.attributes.warnings[0]
