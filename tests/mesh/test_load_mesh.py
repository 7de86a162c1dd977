import contextlib
import itertools
import os
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import trimesh

from bench.robustness_corpus import load_corpus, summarize
from equigeo.mesh import LoadReport, MeshError, TriangleMesh, load_mesh
from equigeo.mesh.io import file_mesh as limits
from equigeo.mesh.io import read_mesh_file as reader
from tests.mesh import shapes
from tests.mesh.io import files
from tests.shared_data import on_data
from tests.wrong_inputs import refused

fails = partial(refused, error=MeshError)

SOUND = {
    *("closed_sphere", "closed_genus_gt_0", "boundary", "multi_component"),
    *("self_intersecting", "polygonal", "unwelded"),
}


def loaded(
    folder: Path, name: str, data: bytes, **options: float
) -> tuple[TriangleMesh, LoadReport]:
    """Write a file and load it."""
    (folder / name).write_bytes(data)
    return load_mesh(folder / name, **options)


@pytest.mark.parametrize("name", files.SPELLINGS)
def test_every_format_gives_the_same_mesh(name: str, tmp_path: Path) -> None:
    mesh, report = loaded(tmp_path, name.upper(), files.SPELLINGS[name](), strict=True)
    assert np.array_equal(mesh.vertices[mesh.faces].numpy(), files.VERTICES[files.FACES])
    topology = report.topology
    assert (report.is_clean, topology.closed, topology.manifold) == (True, True, True)
    assert topology.euler == 2
    assert report.kept_faces.tolist() == list(range(len(files.FACES)))
    assert report.attributes.summary() == ""
    assert "attributes" not in report.summary()
    assert "lost area" not in report.summary()


def test_labels_and_values_follow_kept_faces(tmp_path: Path) -> None:
    data = b"v 7 7 7\n" + files.obj_text(faces=np.insert(files.FACES + 1, 2, [1, 1, 2], axis=0))
    mesh, report = loaded(tmp_path, "labels.obj", data)
    assert report.kept_faces.tolist() == [0, 1, 3, 4, 5, 6]
    assert report.kept_triangles.tolist() == [0, 1, 3, 4, 5, 6]
    assert report.vertex_map.tolist() == [-1, 0, 1, 2, 3, 4]
    assert torch.equal(mesh.faces, torch.as_tensor(files.FACES))
    assert not report.is_clean
    mesh, report = loaded(tmp_path, "mirrored.glb", files.glb_attributed(scale=[1, 1, -1]))
    place = (mesh.vertices * torch.tensor([1, 1, -1.0])).numpy()
    number = (place[:, None] == files.VERTICES).all(2).argmax(1)
    assert np.array_equal(report.attributes.vertices["color"].numpy(), files.COLORS[number])


def test_a_binary_stl_file_whose_corners_differ_in_the_last_digits_is_one_surface(tmp_path) -> None:
    corners = shapes.cube().vertices[shapes.cube().faces].numpy().reshape(-1, 3)
    corners = corners + 1e-7 * np.random.default_rng(0).uniform(-1, 1, corners.shape)
    data = files.stl_binary(corners, np.arange(36).reshape(-1, 3))
    mesh, report = loaded(tmp_path, "cube.stl", data)
    assert (mesh.num_vertices, report.topology.components, report.topology.closed) == (8, 1, True)
    assert report.counts.merged_vertices == report.file_vertices - 8
    assert "18 pairs of boundary edges nearly coincide, within" in report.summary()
    assert loaded(tmp_path, "cube.stl", data, merge=0.0)[1].topology.components > 1


def test_the_report_lists_repairs_warnings_areas_and_edges(tmp_path: Path) -> None:
    vertices = np.concatenate([files.VERTICES, files.VERTICES + 9, files.VERTICES[:1] - 9])
    data = files.obj_text(vertices, np.concatenate([files.FACES, files.FACES[:, ::-1] + 5]))
    summary = loaded(tmp_path, "two.obj", data)[1].summary()
    assert summary.startswith("two.obj: 11 vertices, 12 faces -> 10 vertices, 12 triangles")
    assert "closed, oriented, manifold, components 2, Euler characteristic 4" in summary
    assert "reoriented faces: 6" in summary
    assert "unreferenced vertices: 1" in summary
    assert "warning: the mesh has 2 components" in summary
    hole = b"v 0 0 0 1 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv nan 0 0\nf 1 2 3\nf 1 3 5\n"
    report = loaded(tmp_path, "hole.obj", hole)[1]
    assert report.lost_area == pytest.approx(0.5)
    assert "lost area: 50.00%\nattributes of vertices: color\nwarning: 1 vertex" in report.summary()
    assert repr(report.attributes) == "MeshAttributes(vertices: color)"
    book = b"v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 4 3\nf 1 3 5\n"
    report = loaded(tmp_path, "book.obj", book)[1]
    assert report.turned_faces.tolist() == [1]
    assert report.nonmanifold_edges.tolist() == [[0, 2]]
    assert report.turned_area == pytest.approx(0.5 / (1 + 0.5**0.5))


@pytest.mark.parametrize("name", files.ATTRIBUTED)
def test_every_format_gives_the_same_attributes(name: str, tmp_path: Path) -> None:
    mesh, report = loaded(tmp_path, name, files.ATTRIBUTED[name](), strict=True)
    assert np.array_equal(mesh.vertices[mesh.faces].numpy(), files.VERTICES[files.FACES])
    found = report.attributes
    at_corners = {key: values[mesh.faces] for key, values in found.vertices.items()} | found.corners
    for key, values in (("color", files.COLORS), ("normal", files.NORMALS), ("uv", files.UV)):
        np.testing.assert_array_equal(at_corners[key].numpy(), values[files.FACES])
    if "ply" in name or "off" in name:
        assert np.array_equal(found.faces["color"].numpy(), files.FACE_BYTES / 255)
    if "ply" in name:
        assert np.array_equal(found.faces["label"].numpy(), files.LABELS)
    assert report.warnings == ()
    assert report.lost_area == report.turned_area == 0


UNUSABLE = {
    "empty.obj": b"",
    "blank.off": b"\n \n",
    "comments.obj": b"# nothing\n",
    "points.obj": files.TRIANGLE,
    **{
        f"photo.{kind}": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
        for kind in ("obj", "off", "ply", "stl")
    },
    "broken_utf16.obj": b"\xff\xfev\0 \0\x00\xd8",
    "truncated.off": files.off_text()[:-15],
    "truncated.ply": files.SPELLINGS["binary.ply"]()[:-15],
    "truncated.stl": files.SPELLINGS["binary.stl"]()[:-15],
    "outside.obj": files.TRIANGLE + b"f 1 2 4",
    "nan.obj": b"v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3",
    "zero_area.obj": b"v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3",
    "shape.step": b"ISO-10303-21;",
    "no_extension": files.obj_text(),
}


CONTENTS = {name.split(".")[1]: write() for name, write in files.SPELLINGS.items()}
del CONTENTS["gltf"]  # any text may be one
CONTENTS["obj"] = b"# made by hand\n\nmtllib none.mtl\no thing\n" + files.obj_text()


@pytest.mark.parametrize("kind", ["3mf", "glb", "gltf", "obj", "off", "ply", "stl", "vtp"])
def test_a_file_of_another_format_than_its_extension_is_named(kind: str, tmp_path: Path) -> None:
    contents = {**CONTENTS, "stl text": files.stl_text(), "ply text": files.ply_text()}
    for name, data in contents.items():
        real = name.split()[0]
        if real != kind:
            message = f"has the content of a .{real} file; rename it from .{kind} to .{real}$"
            fails(message, loaded, tmp_path, f"wrong.{kind}", data)
    fails("has no faces", loaded, tmp_path, "points.obj", files.TRIANGLE)


@pytest.mark.parametrize("name", ["part.stl", "part.ply", "part.obj"])
def test_edges_below_the_resolution_of_float32_are_told(name: str, tmp_path: Path) -> None:
    near, far = (files.VERTICES / 100 + offset for offset in (0.5, 5e6))
    write = {name.split(".")[1]: write for name, write in files.SPELLINGS.items()}[name[-3:]]
    message = "float32 are multiples of 0.5 at 5e.06 from the origin.*to the origin"
    fails(message, loaded, tmp_path, name, write(far.astype(np.float32).astype(np.float64)))
    coarse = (files.VERTICES + 5e6).astype(np.float32).astype(np.float64)
    report = loaded(tmp_path, name, write(coarse))[1]
    assert "float32 are multiples of 0.5" in report.warnings[0]
    for faces in (b"f 1\n", b"f 1\nf 2\n"):
        fails("has no sound face", loaded, tmp_path, "no_edges.obj", files.TRIANGLE + faces)
    for vertices in (near, *([far] if name != "part.stl" else []), files.VERTICES + 5e3):
        assert loaded(tmp_path, name, write(vertices))[1].warnings == ()


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_file_gives_one_error_that_names_it(name: str, tmp_path: Path) -> None:
    for strict in (False, True):
        text = fails(".", loaded, tmp_path, name, UNUSABLE[name], strict=strict)
        assert text.startswith(f"{tmp_path / name}: ")
        assert "\n" not in text


def test_missing_files_folders_and_pipes_raise(tmp_path: Path) -> None:
    for name in ("missing.obj", "missing/deeper.ply", "nul\0byte.obj"):
        message = r"does not exist; check the path|cannot be read"
        fails(message, load_mesh, tmp_path / name)
    path = tmp_path / "folder.obj"
    path.mkdir()
    fails(r"folder\.obj: is not a regular file", load_mesh, path)
    if hasattr(os, "mkfifo"):  # and loading does not block
        os.mkfifo(tmp_path / "pipe.obj")
        fails("is not a regular file", load_mesh, tmp_path / "pipe.obj")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "locked.obj"
    path.write_bytes(files.obj_text())
    path.chmod(0)
    fails("cannot be read", load_mesh, path)


def test_loading_is_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name, write in files.SPELLINGS.items():
        path = tmp_path / name
        path.write_bytes(write().replace(b"comment", b"comment TextureFile none.png"))
        load_mesh(path)
        path.write_bytes(write()[:-9])
        with contextlib.suppress(MeshError):
            load_mesh(path)
    assert capfd.readouterr() == ("", "")


@on_data("robustness_meshes")
def test_the_robustness_corpus_loads_as_its_manifest_says(folder: Path) -> None:
    summary = summarize(load_corpus(folder))
    assert summary["files"] in (40, 228)
    problems = [text for text in summary["problems"] if " took " not in text]  # depends on load
    assert problems == []
    categories = summary["categories"]
    assert isinstance(categories, dict)
    assert len(categories) >= 12
    for name in categories.keys() & SOUND:
        assert categories[name]["triangles_as_expected"] == categories[name]["files"]


def test_any_path_will_do_and_a_strict_error_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "mesh.obj"
    path.write_bytes(files.obj_text())
    named = type("Named", (), {"__fspath__": lambda self: str(path)})  # somebody else's class
    for given in (str(path), path, named()):
        mesh, report = load_mesh(given)
        assert mesh.num_faces == len(files.FACES)
        assert report.path == path
    quad = files.TRIANGLE + b"v 1 1 0\n# a quad\nf 1 2 4 3"
    message = r"quad\.obj: line 6 \(face 0\) has more than three"
    fails(message, loaded, tmp_path, "quad.obj", quad, strict=True)


@pytest.fixture(scope="module")
def load_once(tmp_path_factory) -> None:
    """Import what readers import when they are called first."""
    for name, text in files.SPELLINGS.items():
        loaded(tmp_path_factory.mktemp("once"), name, text())


@pytest.mark.parametrize("name", files.HOSTILE)
@pytest.mark.usefixtures("load_once")
def test_a_hostile_file_is_refused_at_once(name: str, tmp_path: Path) -> None:
    make, message = files.HOSTILE[name]
    path = tmp_path / name
    path.write_bytes(make())
    before = time.process_time()
    text = fails(message, load_mesh, path)
    assert time.process_time() - before < files.SECONDS
    assert text.startswith(f"{path}: ")
    assert len(text) - len(str(path)) < 300


def test_a_large_file_is_not_even_read_and_missing_vertices_are_told(tmp_path: Path) -> None:
    path = tmp_path / "large.obj"
    with path.open("wb") as file:
        os.truncate(file.fileno(), limits.MAX_FILE_BYTES + 1)
    fails("has 2147483649 bytes, more than 2147483648", load_mesh, path)
    message = "announces 5 vertices and 0 faces, but has only 2 lines"
    short = b"OFF\n5 0 0\n1 2 3\n4 5 6\n"
    fails(message, loaded, tmp_path, "short.off", short)


def test_comments_lines_solids_and_long_faces_within_the_limits_are_read(tmp_path: Path) -> None:
    solids = b"solid\nendsolid\n" * 1000 + files.stl_text()
    more = files.ply_text() + b"\n" * 10 + b"what else\n" * 10
    assert loaded(tmp_path, "many.ply", files.ply_with_comments(10_000))[0].num_faces == 6
    assert loaded(tmp_path, "more.ply", more, strict=True)[0].num_faces == 6
    assert loaded(tmp_path, "solids.stl", solids)[0].num_faces == 6
    angle = np.linspace(0, 2 * np.pi, 5000, endpoint=False)
    disc = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1)
    for name, text in (("disc.off", files.off_text), ("disc.ply", files.ply_text)):
        data = text(disc, np.arange(5000)[None]).replace(b"list uchar", b"list ushort")
        assert loaded(tmp_path, name, data)[0].num_faces == 4998


def test_words_that_are_no_numbers_leave_the_others_as_they_are(tmp_path: Path) -> None:
    odd = ["1_0", "0x1", "1e", "--1", "1,5", "٣", "1" * 65, "infinite", "1e5e"]
    even = ["+1.5", "-.5", "5.", "1e5", "1E-3", "007", "nan", "-inf", "Infinity"]
    rows = "".join(f"v {a} {b} 1\n" for a, b in zip(odd, even, strict=True)).encode()
    mesh, report = loaded(tmp_path, "words.obj", rows + files.TRIANGLE + b"f -1 -2 -3")
    assert mesh.num_faces == 1
    assert report.warnings[0].startswith("9 vertices are not three finite numbers, first in line 1")


def attributed(
    shape: TriangleMesh, values: dict[str, torch.Tensor], faces: tuple[str, ...]
) -> bytes:
    """A PLY file whose columns are the given values, of faces if named so, else of vertices."""
    rows = {
        "vertices": [*shape.vertices.tolist()],
        "faces": [[3, *f] for f in shape.faces.tolist()],
    }
    header = ["ply", "format ascii 1.0"]
    for kind, element, count in (("vertices", "vertex", len(shape.vertices)),
                                 ("faces", "face", len(shape.faces))):  # fmt: skip
        header.append(f"element {element} {count}")
        own = {n: x.tolist() for n, x in values.items() if (n in faces) == (kind == "faces")}
        base = (
            [f"double {axis}" for axis in "xyz"]
            if kind == "vertices"
            else ["list int int vertex_indices"]
        )
        header += [f"property {x}" for x in (*base, *(f"double {name}" for name in own))]
        rows[kind] = [[*row, *more] for row, *more in zip(rows[kind], *own.values(), strict=True)]
    lines = [" ".join(map(repr, row)) for row in (*rows["vertices"], *rows["faces"])]
    return "\n".join([*header, "end_header", *lines, ""]).encode()


def test_properties_become_inputs_of_faces(tmp_path: Path) -> None:
    shape = shapes.lumpy(shapes.cube())
    turned = TriangleMesh(shape.vertices, shape.faces.flip(1))  # loading turns every face
    generator = torch.Generator().manual_seed(0)
    values = {name: torch.rand(8, generator=generator) for name in ("red", "green", "blue", "heat")}
    values |= {name: torch.rand(12, generator=generator) for name in ("load", "nx", "ny", "nz")}
    names = ("heat", "load", "green", "nx", "ny", "nz")
    data = attributed(turned, values, ("load", "nx", "ny", "nz"))
    mesh, report = loaded(tmp_path, "cube.ply", data, inputs=names)
    assert report.counts.reoriented_faces == 12
    assert tuple(mesh.inputs) == names
    for name in names:
        given = values[name].double()
        expected = given if len(given) == 12 else given[mesh.faces].mean(dim=1)
        torch.testing.assert_close(mesh.inputs[name], expected)
    for inputs, message in (
        (
            ("red", "mass"),
            "cube.ply: has no property 'mass' of its faces or vertices; it has nx, ny",
        ),
        (("ny",), "cube.ply: input 'ny' is a component.*read the vector nx, ny, nz"),
        (("heat", "heat"), "cube.ply: inputs must have different names, got .*'heat', 'heat'"),
    ):
        fails(message, load_mesh, tmp_path / "cube.ply", inputs=inputs)
    part = attributed(turned, {name: values[name] for name in ("nx", "ny")}, ("nx", "ny"))
    with pytest.raises(MeshError, match=r"part.ply: input 'nx' is a component"):
        loaded(tmp_path, "part.ply", part, inputs=("nx", "ny"))
    own = attributed(turned, {"color": values["load"], "normal": values["heat"]}, ("color",))
    mesh, _ = loaded(tmp_path, "own.ply", own, inputs=("color", "normal"))
    assert torch.equal(mesh.inputs["color"], values["load"].double())
    message = "own.ply: has no property 'red' of its faces or vertices; it has color, normal"
    fails(message, load_mesh, tmp_path / "own.ply", inputs=("red",))
    values["load"][3] = torch.nan
    with pytest.raises(MeshError, match="property 'load' has no value for 1 of 12 faces"):
        loaded(
            tmp_path,
            "hole.ply",
            attributed(turned, values, ("load", "nx", "ny", "nz")),
            inputs=["load"],
        )


def test_3mf_is_read_by_trimesh_or_names_what_it_needs(tmp_path, monkeypatch):
    path, box = tmp_path / "box.3mf", trimesh.creation.box((1, 2, 3))
    if find_spec("lxml"):
        path.write_bytes(box.export(file_type="3mf"))
        mesh, report = load_mesh(path)
        assert (mesh.num_faces, report.topology.closed) == (12, True)
        path.write_bytes(b"PK\x03\x04")
        refused("is no 3MF file with triangles", load_mesh, path, error=MeshError)
        part, damaged = files.threemf_part(), "is no 3MF file with triangles"
        other = files.threemf_part(files.VERTICES + 5)
        slices = '<slicestack><vertices><vertex x="1" y="2"/></vertices></slicestack>'
        path.write_bytes(files.threemf(f"{part}{slices}"))  # of an extension: no vertices of a mesh
        assert load_mesh(path)[0].num_faces == len(files.FACES)
        for parts in ((part + other,), (part, other)):  # in one file, or in one each
            path.write_bytes(files.threemf(*parts))
            assert load_mesh(path)[0].num_faces == 2 * len(files.FACES)
        for old, new, message in (
            ('v1="1"', 'v1="7"', "refers to vertex 7 of a part that has 5"),
            ('v1="1"', 'v1="-1"', "refers to vertex -1 of a part that has 5"),
            ('v1="1"', 'v1="1_0"', damaged),
            ('v1="1" v2="2"', 'v1="1 2" v2=""', damaged),
            ('v1="1"', 'v1="\u0661"', damaged),  # a digit for Python, not for NumPy
            ('x="0.0"', 'x="a"', damaged),
            ("<mesh>", f"<mesh>{part}", damaged),
        ):
            for i, name in itertools.product((0, 1), ("one", "two")):
                parts = [part, part]
                parts[i] = part.replace(old, new, 1)
                parts = ["".join(parts)] if name == "one" else parts
                fails(message, loaded, tmp_path, f"{name}.3mf", files.threemf(*parts))
    path.write_bytes(b"PK\x03\x04")
    monkeypatch.setattr(reader, "find_spec", lambda name: True)
    for error, message in ((MemoryError(), "not fit in memory"), (OSError(24, "busy"), "busy")):
        monkeypatch.setattr(reader.zipfile, "ZipFile", Mock(side_effect=error))
        fails(message, load_mesh, path)
    monkeypatch.setattr(reader, "find_spec", lambda name: None)
    refused("pip install lxml networkx", load_mesh, path, error=MeshError)
