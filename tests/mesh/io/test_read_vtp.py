import itertools
import lzma
import zlib

import numpy as np
import pytest

from equigeo.mesh import MeshError, load_mesh
from equigeo.mesh.io.vtp import read_vtp
from tests.mesh.io.files import FACES, VERTICES, VTK_FORMS, vtp
from tests.wrong_inputs import refused

RNG = np.random.default_rng(0)
POINTS = {"heat": RNG.normal(size=5), "wind": RNG.normal(size=(5, 3)).astype("f4")}
CELLS = {"label": RNG.integers(0, 7, 6).astype("i4"), "Normals": RNG.normal(size=(6, 3))}
FULL = {"points": POINTS, "cells": CELLS}


def check(mesh, copies=1):
    """Whether everything was read, without rounding."""
    np.testing.assert_array_equal(mesh.vertices, np.tile(VERTICES, (copies, 1)))
    corners = np.concatenate([FACES + 5 * k for k in range(copies)]).ravel()
    np.testing.assert_array_equal(mesh.corners, corners)
    assert mesh.sizes.tolist() == [3] * 6 * copies
    found = mesh.attributes
    assert found.warnings == ()
    assert [*found.vertices] == ["heat", "windx", "windy", "windz"]
    assert [*found.faces] == ["normal", "label"]
    np.testing.assert_array_equal(found.vertices["heat"], np.tile(POINTS["heat"], copies))
    np.testing.assert_array_equal(found.vertices["windy"], np.tile(POINTS["wind"][:, 1], copies))
    np.testing.assert_array_equal(found.faces["label"], np.tile(CELLS["label"], copies))
    np.testing.assert_array_equal(found.faces["normal"], np.tile(CELLS["Normals"], (copies, 1)))


@pytest.mark.parametrize("form", VTK_FORMS)
def test_every_encoding_is_read_in_pieces_too(form):
    ways = [None] if form == "ascii" else [None, zlib.compress, lzma.compress]
    headers = ("<u4", ">u4", "<u8", ">u8")
    for header, compress, pieces in itertools.product(headers, ways, (1, 2)):
        data = vtp(form=form, header=header, compress=compress, pieces=pieces, **FULL)
        check(read_vtp(data), pieces)


def test_padded_headers_and_lines_of_base64_are_read():
    stream = vtp(form="binary", header="<u8").split(b"Polys")[1].split(b"\n")[1].strip()
    assert len(stream) > 100
    lines = b"\n\t".join(stream[k : k + 40] for k in range(0, len(stream), 40))
    mesh = read_vtp(vtp(form="binary", header="<u8").replace(stream, lines))
    np.testing.assert_array_equal(mesh.corners, FACES.ravel())


CELL_LISTS = {
    "Verts": ([0, 4], [1, 2]),
    "Lines": ([0, 1, 2], [3]),
    "Strips": ([0, 1, 2, 3, 0, 1], [6]),
}


def cells(*names):
    text = "".join(
        f'<{name}><DataArray type="Int32" Name="connectivity">{" ".join(map(str, a))}</DataArray>'
        f'<DataArray type="Int32" Name="offsets">{" ".join(map(str, b))}</DataArray></{name}>'
        for name, (a, b) in CELL_LISTS.items()
        if name in names
    )
    return f"{text}</Piece>".encode()


def test_points_and_lines_are_passed_over_and_strips_are_triangles():
    label = np.arange(9, dtype="i4")
    data = vtp(cells={"label": label}).replace(b"</Piece>", cells("Verts", "Lines"))
    mesh = read_vtp(data.replace(b"<Piece ", b'<Piece NumberOfVerts="2" NumberOfLines="1" '))
    assert mesh.attributes.faces["label"].tolist() == [3, 4, 5, 6, 7, 8]
    data = vtp(cells={"label": label[:7]}).replace(b"</Piece>", cells("Strips"))
    mesh = read_vtp(data)
    assert mesh.corners[18:].reshape(-1, 3).tolist() == [[0, 1, 2], [1, 3, 2], [2, 3, 0], [3, 1, 0]]
    assert mesh.attributes.faces == {}
    assert mesh.attributes.warnings == ("not read: element 'label'",)
    polygon = read_vtp(vtp(faces=[[0, 1, 4, 2], [0, 2, 3]]))
    assert polygon.sizes.tolist() == [4, 3]


def test_arrays_are_inputs_and_tensors_are_left_out(tmp_path):
    path = tmp_path / "flow.vtp"
    tensor = {"stress": np.zeros((5, 6))}
    path.write_bytes(vtp(form="raw", points=POINTS | tensor, cells=CELLS))
    mesh, report = load_mesh(path, inputs=("windx", "windy", "windz", "label"))
    assert mesh.inputs["label"].tolist() == CELLS["label"].tolist()
    wind = POINTS["wind"][:, 0].astype(np.float64)[FACES].mean(axis=1)
    np.testing.assert_allclose(mesh.inputs["windx"], wind, rtol=1e-15)  # a mean of three
    assert any("vertex property 'stress', a list" in text for text in report.warnings)
    two = vtp(form="raw", pieces=2, points=POINTS).replace(b'Name="heat"', b'Name="cold"', 1)
    found = read_vtp(two).attributes
    assert [*found.vertices] == ["windx", "windy", "windz"]
    assert found.warnings == ("not read: element 'cold', element 'heat'",)


SCALAR, VECTOR = np.full(5, 100.0), RNG.normal(size=(5, 3))
WORDS = b'<Array type="String" Name="word" format="ascii">65 0 66 0 67 0 68 0 69 0 </Array>'
BITS = b'<DataArray type="Bit" Name="bit" format="ascii">1 0 1 1 0 </DataArray>'


@pytest.mark.parametrize("part", ["points", "cells"])
@pytest.mark.parametrize(
    ("arrays", "more", "left_out"),
    [
        ({"Normals": VECTOR, "nx": SCALAR}, b"", "nx"),
        ({"nx": SCALAR, "Normals": VECTOR}, b"", "nx"),
        ({"Normals": VECTOR, "n": -VECTOR}, b"", "n"),
        ({"ny": np.zeros((5, 2)), "Normals": VECTOR}, b"", "ny"),
        ({"Normals": VECTOR}, WORDS, "word"),
        ({"Normals": VECTOR}, BITS, "bit"),
        ({"Normals": VECTOR}, BITS.replace(b"Bit", b"Float128"), "bit"),
        ({"Normals": VECTOR}, BITS.replace(b"Bit", b"Int8").replace(b"bit", b"Normals"), "Normals"),
    ],
)
def test_arrays_that_cannot_be_read_are_named_in_a_warning(part, arrays, more, left_out):
    end = {"points": b"</PointData>", "cells": b"</CellData>"}[part]
    data = vtp(faces=FACES[:5], pieces=2, **{part: arrays}).replace(end, more + end)
    found = read_vtp(data).attributes
    values = {"points": found.vertices, "cells": found.faces}[part]
    assert [*values] == ["normal"]
    np.testing.assert_array_equal(values["normal"], np.tile(VECTOR, (2, 1)))
    assert found.warnings == (f"not read: element '{left_out}'",)


@pytest.mark.parametrize("form", VTK_FORMS)
def test_a_file_without_points_has_no_faces(form, tmp_path):
    path = tmp_path / "empty.vtp"
    empty = vtp(np.zeros((0, 3)), [], form, points={"heat": SCALAR[:0]})
    start, end = empty.index(b"<Points>") + 8, empty.index(b"</Points>")
    piece = empty[empty.index(b"<Piece") : empty.index(b"</PolyData>")]
    for data in (empty, empty[:start] + empty[end:], empty.replace(piece, b"")):
        path.write_bytes(data)
        refused("has no faces, only 0 vertices", load_mesh, path, error=MeshError)
    check(read_vtp(vtp(form=form, **FULL).replace(b"<PolyData>", b"<PolyData>" + EMPTY_PIECE)))


EMPTY_PIECE = b'<Piece NumberOfPoints="0"><Points></Points></Piece>'
DAMAGED = "is no VTP file with polygons: it is damaged"
WRONG = [
    (b'type="PolyData"', b'type="ImageData"', "holds 'ImageData' instead of PolyData"),
    (b"<VTKFile", b'<VTKFile compressor="vtkLZ4DataCompressor"', "compressed by 'vtkLZ4"),
    (b"LittleEndian", b"MiddleEndian", DAMAGED),
    (b"</PolyData>", b"", DAMAGED),
    (b"UInt32", b"UInt33", DAMAGED),
    (b'Name="offsets"', b'Name="x"', DAMAGED),
    (b'NumberOfComponents="3"', b'NumberOfComponents="2"', DAMAGED),
    (b'NumberOfComponents="3"', b'NumberOfComponents="-1"', DAMAGED),
    (b"<Points>", b"<Pints>", DAMAGED),
]
TEXT = [
    (b">0 2 1 ", b">0 2 9 ", "face 0 refers to vertex 9, but the file holds 5"),
    (b">0 2 1 ", b">0 2 -1 ", DAMAGED),
    (b">0 2 1 ", b">0 2 1_0 ", DAMAGED),
    (b">0 2 1 ", b">0 2 1 1 ", DAMAGED),
    (b">0 2 1 ", b">0 2 a ", DAMAGED),
    (b">3 6 9", b">3 9 6", DAMAGED),
    (b">3 6 9", b">-3 6 9", DAMAGED),
]


@pytest.mark.parametrize("form", VTK_FORMS)
def test_a_wrong_file_gives_one_error(form):
    sound = vtp(form=form, **FULL)
    for old, new, message in WRONG + (TEXT if form == "ascii" else []):
        assert old in sound
        refused(message, read_vtp, sound.replace(old, new), error=MeshError)
    for compress in [None] if form == "ascii" else [None, zlib.compress]:
        data = vtp(form=form, compress=compress, **FULL)
        for end in range(0, len(data), 101):
            refused(".", read_vtp, data[:end], error=MeshError)
    two = vtp(form=form, pieces=2, faces=[[0, 1, 7]])  # which is a vertex of both together
    refused("refers to vertex 7, but the file holds 5", read_vtp, two, error=MeshError)
    if form != "ascii":
        bomb = vtp(form=form, compress=lambda data: zlib.compress(bytes(10**6)))
        refused("is damaged|unpacks to", read_vtp, bomb, error=MeshError)
