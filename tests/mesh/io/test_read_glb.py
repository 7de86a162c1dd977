import base64
import io
import json
from functools import partial

import numpy as np
import pytest
import torch
import trimesh
from trimesh.transformations import rotation_matrix, translation_matrix

from equigeo.mesh import MeshError
from equigeo.mesh.io.file_mesh import MAX_SCENE
from equigeo.mesh.io.glb import _File, read_glb
from equigeo.mesh.io.read_mesh_file import read_mesh_file
from equigeo.testing import tolerance
from tests.mesh.io import files
from tests.mesh.io.files import (
    COLORS,
    FACES,
    NORMALS,
    UV,
    VERTICES,
    glb_attributed,
    glb_binary,
    gltf,
    pack,
    scene,
    strip_or_fan,
    with_accessor,
)
from tests.wrong_inputs import refused

fails = partial(refused, error=MeshError)


def corners(mesh) -> np.ndarray:
    return mesh.vertices[mesh.corners].reshape(-1, 3, 3)


def test_triangles_are_those_of_the_file_wound_outwards_and_not_repaired():
    assert np.array_equal(corners(read_glb(glb_binary())), VERTICES[FACES])
    found = corners(read_glb(glb_binary(nodes=[{"mesh": 0, "scale": [-1, 1, 1]}])))
    assert np.array_equal(found, (VERTICES * [-1, 1, 1])[FACES[:, [0, 2, 1]]])
    found = read_glb(glb_binary(nodes=[{"mesh": 0, "scale": [1e999, 1, 1]}]))
    assert not np.isfinite(found.vertices).all()
    assert found.num_faces == len(FACES)
    assert read_glb(strip_or_fan(1, 6)).num_faces == 0


def test_scenes_are_those_of_trimesh_and_nodes_move_what_is_below_them():
    box, ball = trimesh.creation.box((1, 2, 3)), trimesh.creation.icosphere(subdivisions=1)
    whole = trimesh.Scene()
    whole.add_geometry(box, node_name="a", transform=rotation_matrix(0.3, [1, 2, 3], [4, 5, 6]))
    whole.add_geometry(ball, node_name="b", transform=translation_matrix([7, 8, 9]))
    turn = rotation_matrix(1.1, [0, 1, 1]) @ np.diag([2.0, 3.0, 0.5, 1.0])
    whole.graph.update(frame_to="c", frame_from="b", matrix=turn, geometry="geometry_1")
    data = whole.export(file_type="glb")
    want = trimesh.load_scene(io.BytesIO(data), file_type="glb").to_mesh()
    found = read_glb(data)
    mine, theirs = (
        triangles[np.lexsort(triangles.reshape(-1, 9).T.round(4))]
        for triangles in (corners(found), np.asarray(want.triangles))
    )
    assert found.num_faces == len(want.faces) > len(box.faces) + len(ball.faces)
    assert np.allclose(mine, theirs, **tolerance(torch.float64, 4))
    turned = {"rotation": [0, 0, 0.5**0.5, 0.5**0.5], "children": [1]}  # x to y
    moved = {"translation": [1, 0, 0], "scale": [2, 2, 2], "mesh": 0}
    found = read_glb(glb_binary(nodes=[turned, moved]))
    x, y, z = (2 * VERTICES + [1, 0, 0]).T
    want = np.stack([-y, x, z], 1)[FACES]
    assert np.allclose(corners(found), want, **tolerance(torch.float64, 4))
    columns = [0, 1, 0, 0, -1, 0, 0, 0, 0, 0, 1, 0, 5, 6, 7, 1]
    found = read_glb(glb_binary(nodes=[{"mesh": 0, "matrix": columns}]))
    x, y, z = VERTICES.T
    assert np.allclose(corners(found), np.stack([5 - y, 6 + x, 7 + z], 1)[FACES])


def test_without_a_scene_all_roots_are_read_and_without_nodes_all_meshes():
    moved = {"scale": [5, 5, 5], "mesh": 0}
    for scenes in ([], None):
        described, binary = scene(nodes=[{"children": [1]}, {"mesh": 0}, moved], scenes=scenes)
        if scenes is None:
            del described["scenes"], described["scene"]
        found = corners(read_glb(pack(described, binary)))
        want = [VERTICES[FACES], 5 * VERTICES[FACES]]
        assert np.array_equal(found, np.concatenate(want))
        del described["nodes"]
        assert np.array_equal(corners(read_glb(pack(described, binary))), VERTICES[FACES])
    mesh = read_glb(glb_binary(scenes=[{"nodes": []}, {"nodes": [0]}], scene=1))
    assert mesh.num_faces == len(FACES)
    assert mesh.attributes.warnings == ("not read: all but one of 2 scenes",)


def moves(kind: str = "<f4") -> dict[str, np.ndarray]:
    """Transforms of three instances, with rotations in a given type."""
    full = 1 if kind == "<f4" else np.iinfo(kind).max
    rotation = (files.INSTANCES["ROTATION"] * full).round().astype(kind)
    return files.INSTANCES | {"ROTATION": rotation}


def instanced(parts: dict[str, np.ndarray], node: dict | None = None, **changes: object) -> bytes:
    described, binary = files.instanced(parts, **(node or {}))
    return pack(described | changes, binary)


@pytest.mark.parametrize(("kind", "error"), [("<f4", 4e-7), ("i1", 0.02), ("<i2", 8e-5)])
def test_instances_are_read_where_their_node_and_their_transforms_put_them(kind, error):
    node = {"translation": [0, 100, 0], "scale": [3, 3, 3]}
    mesh = read_glb(instanced(moves(kind), node, extensionsRequired=["EXT_mesh_gpu_instancing"]))
    x, y, z = VERTICES.T
    places = [(x, y, z), (10 - 2 * y, 2 * x, 2 * z), (-x, -y, 7 - z)]  # the last one mirrored
    places = [3 * np.stack(place, axis=1) + [0, 100, 0] for place in places]
    faces = [FACES, FACES, FACES[:, [0, 2, 1]]]
    want = np.concatenate([p[f] for p, f in zip(places, faces, strict=True)])
    # Half a step of the stored quaternions, times twice the largest coordinate after scaling.
    assert np.allclose(corners(mesh), want, rtol=0, atol=12 * error)
    assert len(mesh.attributes.vertices["color"]) == len(mesh.vertices)
    assert mesh.attributes.warnings == ()


TRANSLATION, _, SCALE = files.INSTANCES.values()


def test_instances_need_neither_all_transforms_nor_the_declaration():
    for name, values, want in (
        ("TRANSLATION", TRANSLATION, [VERTICES + t for t in TRANSLATION]),
        ("SCALE", SCALE[:2], [VERTICES, 2 * VERTICES]),
        ("_ID", TRANSLATION[:, :1], [VERTICES] * 3),
    ):
        mesh = read_glb(instanced({name: values}))
        assert np.array_equal(corners(mesh), np.concatenate([points[FACES] for points in want]))
        is_own = name.startswith("_")
        assert ("not read: attribute '_ID' of instances" in mesh.attributes.warnings) == is_own
    for parts in ({}, {"TRANSLATION": TRANSLATION, "SCALE": SCALE[:2]},
                  {"TRANSLATION": np.zeros((32_769, 3), "<f4")}):  # fmt: skip
        fails("has instances of a mesh with .* transforms; expected one", read_glb,
              instanced(parts))  # fmt: skip
    fails("no VEC4 of numbers", read_glb, instanced({"ROTATION": TRANSLATION}))


def test_required_extensions_that_change_no_surface_are_no_obstacle():
    for name in ("KHR_materials_unlit", "KHR_texture_basisu", "KHR_mesh_quantization"):
        assert read_glb(glb_binary(extensionsRequired=[name])).num_faces == len(FACES)
    line, binary = gltf({"POSITION": VERTICES.astype("<f4")}, skin=0)
    line["meshes"][0]["primitives"][0]["mode"] = 1
    assert read_glb(pack(line, binary)).attributes.warnings == (
        "skins are not applied: meshes are in their bind pose", "not read: points and lines",
    )  # fmt: skip


def morphed(weights, node=None, **changes):
    """One mesh with its own positions as the morph target, which doubles it."""
    described, binary = scene()
    mesh = described["meshes"][0] | ({} if weights is None else {"weights": weights})
    mesh["primitives"][0]["targets"] = [{"POSITION": 0, "NORMAL": 0}, {"NORMAL": 0}]
    mesh["primitives"][0]["attributes"]["NORMAL"] = 0
    described["nodes"] = [{"mesh": 0} | ({} if node is None else {"weights": node})]
    return read_glb(pack(described | {"meshes": [mesh]} | changes, binary))


@pytest.mark.parametrize(
    ("weights", "node", "factor"),
    [(None, None, 1), ([0, 0], None, 1), ([1.0, 0], None, 2), ([1, 1], [0.5, 0], 1.5),
     ([1.0], [0], 1), (None, [-2], -1)],
)  # fmt: skip
def test_morph_targets_move_by_their_weights(weights, node, factor):
    found = morphed(weights, node)
    assert np.allclose(corners(found), factor * VERTICES[FACES], **tolerance(torch.float64, 4))
    notes = "".join(found.attributes.warnings)
    assert ("normals of a mesh that morph targets move" in notes) == (factor != 1)
    assert ("normal" in found.attributes.vertices) == (factor == 1)


@pytest.mark.parametrize("weights", ["heavy", ["heavy"], {"0": 1}, [10**400]])
def test_weights_and_morph_targets_that_are_none_are_fails(weights):
    fails(r"'weights' that are no list|no number of float64", morphed, weights)
    described, binary = scene()
    described["accessors"].append(described["accessors"][0] | {"count": 2})
    described["meshes"][0]["weights"] = [1]
    described["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": 2}]
    fails("a morph target of other vertices", read_glb, pack(described, binary))


@pytest.mark.parametrize(
    ("mode", "want"),
    [(5, [[0, 1, 2], [1, 3, 2], [2, 3, 4]]), (6, [[1, 2, 0], [2, 3, 0], [3, 4, 0]])],
)
def test_strips_and_fans_are_triangles(mode, want):
    mesh = read_glb(strip_or_fan(mode, 5))
    points = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    assert np.array_equal(corners(mesh), points[np.array(want)])


def test_quantized_and_interleaved_positions_are_read():
    points = np.array([[32767, 0, -32768], [0, 32767, 0], [0, 0, 16384]], "<i2")
    kind = {"bufferView": 0, "componentType": 5122, "count": 3, "type": "VEC3"}
    described, _ = scene(
        accessors=[kind | {"normalized": True}],
        meshes=[{"primitives": [{"attributes": {"POSITION": 0}}]}],
        bufferViews=[{"buffer": 0, "byteLength": 18}],
    )
    found = corners(read_glb(pack(described, points.tobytes())))[0]
    assert np.allclose(found, [[1, 0, -1], [0, 1, 0], [0, 0, 16384 / 32767]])
    rows = np.zeros(len(VERTICES), [("position", "<f4", 3), ("normal", "<f4", 3)])
    rows["position"], rows["normal"] = VERTICES, 9
    described, _ = scene()
    described["bufferViews"] = [
        {"buffer": 0, "byteLength": rows.nbytes, "byteStride": 24},
        {"buffer": 0, "byteOffset": rows.nbytes, "byteLength": FACES.size * 2},
    ]
    binary = rows.tobytes() + FACES.astype("<u2").tobytes()
    assert np.array_equal(corners(read_glb(pack(described, binary))), VERTICES[FACES])


DEEP = b"[" * 100_000
POINTS = {"attributes": {"POSITION": 0}}


def views(**changes):
    return glb_binary(bufferViews=[{"byteLength": 60} | changes] * 2)


def nodes(count, node, **changes):
    return glb_binary(scenes=[{"nodes": [*range(count)]}], nodes=[node] * count, **changes)


CASES = {
    "empty": (b"", "is not a GLB file"),
    "other": (b"OFF 3 1 0\n" + b" " * 40, "is not a GLB file"),
    "version 1": (b"glTF\1\0\0\0" + bytes(20), "is glTF of version 1"),
    "truncated": (glb_binary()[:-40], "truncated"),
    "no JSON": (pack(b"nothing"), "a description that is no JSON"),
    "a list": (pack(b"[]"), "no JSON object"),
    "brackets": (pack(DEEP), "a description that is no JSON"),
    "long": (pack(b" " * (2**23 + 4) + b"{}"), "more than 8388608"),
    "no node": (glb_binary(nodes=[]), "refers to number 0 of 0 nodes"),
    "no mesh": (glb_binary(nodes=[{"mesh": 7}]), "refers to number 7 of 1 meshes"),
    "list for a number": (glb_binary(nodes=[{"mesh": [0]}]), r"refers to number \[0\] of 1 meshes"),
    "object for a list": (glb_binary(nodes={"mesh": 0}), "of 0 nodes"),
    "text for a node": (glb_binary(nodes=["mesh"]), "number 0 is no object"),
    "circle": (glb_binary(nodes=[{"children": [0]}]), "node 0 in two places"),
    "shared": (glb_binary(nodes=[{"children": [1, 1]}, {}]), "node 1 in two places"),
    "matrix": (glb_binary(nodes=[{"matrix": [1]}]), "not moved by 16 numbers"),
    "text for numbers": (glb_binary(nodes=[{"scale": ["a", 1, 1]}]), "moved by no numbers"),
    "10^18 vertices": (with_accessor(0, count=10**18), f"more than {MAX_SCENE} vertices"),
    "10^40 vertices": (with_accessor(0, count=10**40), "has 'count' of 1000000"),
    "too many": (with_accessor(0, count=1000), "announces 1000 numbers but has only"),
    "negative": (with_accessor(0, count=-1), "has 'count' of -1, which is no number"),
    "outside": (with_accessor(1, bufferView=0, componentType=5123, count=30), "refers to vertex"),
    "fractions": (with_accessor(1, bufferView=0, componentType=5126, count=15), "other than uns"),
    "kind": (with_accessor(0, type="VEC4"), "no VEC3"),
    "components": (with_accessor(0, componentType=[5126]), "has 'componentType' of .5126., which"),
    "overlapping": (views(byteStride=0), "announces 5 numbers"),
    "component": (with_accessor(0, componentType=1), "no VEC3"),
    "sparse": (with_accessor(0, sparse={}), "sparse accessor"),
    "elsewhere": (glb_binary(buffers=[{"uri": "/etc/passwd"}]), "'/etc/passwd', which is no file"),
    "compressed": (glb_binary(extensionsRequired=["KHR_draco_mesh_compression"]),
                   "is compressed .KHR_draco"),
    "compressed buffer": (views(buffer=1, extensions={"EXT_meshopt_compression": {}}),
                          "is compressed .EXT_meshopt_compression"),
    "unknown extension": (glb_binary(extensionsRequired=["ACME_inside_out"]),
                          "requires the extension 'ACME_inside_out', which is not supported"),
    "text for an extension": (glb_binary(nodes=[{"mesh": 0, "extensions": "none"}]),
                              "has 'extensions' that are no object"),
    "thirds": (with_accessor(1, count=17), "has 17 corners of triangles"),
    "stride": (views(byteStride=2**61), "announces"),
    "many nodes": (nodes(32_769, {"translation": [1, 2, 3]}), "more than 32768 nodes"),
    "many instances": (nodes(32_000, {"mesh": 0}, meshes=[{"primitives": [POINTS] * 2}]),
                       f"more than {MAX_SCENE} vertices"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_damage_gives_one_clear_error(name: str) -> None:
    data, message = CASES[name]
    assert len(fails(message, read_glb, data)) < 300


def test_vertices_keep_their_values_and_corners_of_a_box_their_normals() -> None:
    mesh = read_glb(glb_attributed())
    found = mesh.attributes
    assert not found.corners
    assert found.warnings == ()
    order = (mesh.vertices[None] == VERTICES[:, None]).all(2).argmax(1)  # by position
    for name, values in (("color", COLORS), ("uv", UV), ("normal", NORMALS)):
        np.testing.assert_array_equal(found.vertices[name][order], values)
    box = trimesh.creation.box()
    flat = trimesh.Trimesh(
        box.triangles.reshape(-1, 3), np.arange(36).reshape(-1, 3),
        vertex_normals=np.repeat(box.face_normals, 3, axis=0), process=False,
    )  # fmt: skip
    mesh = read_glb(trimesh.Scene([flat]).export(file_type="glb", include_normals=True))
    assert (len(mesh.vertices), mesh.num_faces) == (8, 12)
    expected = np.repeat(trimesh.triangles.normals(corners(mesh))[0], 3, axis=0)
    np.testing.assert_allclose(mesh.attributes.corners["normal"], expected, atol=1e-6)  # float32


TURN = {"rotation": [0.5, 0.5, 0.5, 0.5]}  # x to y to z to x


def test_normals_turn_with_their_node() -> None:
    for node, matrix in (
        (TURN, [[0, 0, 1], [1, 0, 0], [0, 1, 0]]),
        ({"scale": [2, 4, 8]}, np.diag([0.5, 0.25, 0.125])),  # the inverse transpose
        ({"scale": [-1, 1, 1]}, np.diag([-1, 1, 1])),
        ({"translation": [1, 2, 3]}, np.eye(3)),
    ):
        at_rest = read_glb(glb_attributed())
        moved = read_glb(glb_attributed(**node))
        expected = at_rest.attributes.vertices["normal"] @ np.asarray(matrix, float).T
        if "translation" not in node:
            expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        # vertices are in the order of their first appearance in both
        np.testing.assert_allclose(moved.attributes.vertices["normal"], expected, atol=1e-12)


def refuse(*arguments: object):
    raise MeshError("is broken")


def test_malformed_ones_are_left_out_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    for read, key, message in (
        (refuse, "NORMAL", "normal of a mesh is left out: the file is broken"),
        (lambda *_: np.eye(2), "NORMAL", "normal of a mesh is left out: not one for each vertex"),
        (lambda *_: -np.eye(3), "COLOR_0", "color of a mesh is left out: out of range"),
    ):
        monkeypatch.setattr(_File, "accessor", read)
        file = _File({}, b"")
        assert file.attributes({key: 0}, 3, np.eye(4)) == {}
        assert file.warnings == (message,)


def test_attributes_that_are_broken_or_unknown_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(_File, "accessor", lambda *_: np.eye(3))
        flat = _File({}, b"").attributes({"NORMAL": 0}, 3, np.diag([1.0, 1, 0, 1]))
    assert np.isfinite(flat["normal"]).all()
    good = glb_attributed()
    mesh = read_glb(good.replace(b'"VEC2"', b'"MAT2"'))
    assert mesh.num_faces == 6
    assert sorted(mesh.attributes.vertices) == ["color", "normal"]
    (warning,) = mesh.attributes.warnings
    assert warning.startswith("uv of a mesh is left out: the file has an accessor that is no VEC2")
    file = _File({}, b"")
    assert file.wanted({"POSITION": 0} | {f"_{k}": k for k in range(1000)}) == {}
    assert len(file.warnings) == 6
    assert file.warnings[0] == "not read: attribute '_0'"
    assert file.warnings[-1] == "995 more parts are not read"


def test_a_scene_beyond_the_limit_is_read_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equigeo.mesh.io.glb.MAX_SCENE", 60)
    monkeypatch.setattr("equigeo.mesh.io.glb._LEAST", 1)
    # 5 vertices and 18 corners: 59, and with three attributes 74
    mesh = read_glb(glb_attributed())
    assert mesh.num_faces == 6
    assert not mesh.attributes
    assert "too large for its attributes" in mesh.attributes.warnings[0]


def test_gltf_is_read_with_the_files_beside_it(tmp_path):
    described, binary = scene()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a b.bin").write_bytes(binary)
    want, text = read_glb(pack(described, binary)), base64.b64encode(binary).decode()
    for uri in ("more/a%20b.bin", f"data:application/octet-stream;base64,{text}"):
        described["buffers"] = [{"uri": uri, "byteLength": len(binary)}]
        path = tmp_path / "shape.gltf"
        path.write_text(json.dumps(described))
        found = read_mesh_file(path)
        assert np.array_equal(found.vertices, want.vertices)
        assert np.array_equal(found.corners, want.corners)
        (tmp_path / "shape.glb").write_bytes(pack(described, b""))  # so may GLB
        assert np.array_equal(read_mesh_file(tmp_path / "shape.glb").corners, want.corners)
    text = base64.b64encode(binary + bytes(2**23)).decode()  # more than a description may have
    described["buffers"] = [{"uri": f"data:;base64,{text}"}]
    path.write_text(json.dumps(described))
    assert np.array_equal(read_mesh_file(path).corners, want.corners)
    secret = tmp_path.parent / "secret.bin"
    secret.write_bytes(binary)
    for uri, message in (
        ("../secret.bin", "no file beside it"),
        ("%2e%2e/secret.bin", "no file beside it"),
        (str(secret), "no file beside it"),
        ("https://example.org/a.bin", "no file beside it"),
        ("a\0", "no file beside it"),
        (7, "no file beside it"),
        ("none.bin", "'none.bin', which is missing"),
        ("more", "'more', which is missing"),
        ("data:application/octet-stream;base64,?", "no base64"),
        ("data:application/octet-stream;base64,\u00e9", "no base64"),
    ):
        described["buffers"] = [{"uri": uri}]
        path.write_text(json.dumps(described))
        fails(message, read_mesh_file, path)
