"""One small closed mesh in every format, plain and with attributes; and hostile files."""

import base64
import io
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import trimesh
from numpy.typing import NDArray

VERTICES = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]], np.float64)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 4], [1, 4, 3], [2, 3, 4]])

Faces = NDArray[np.int64] | Sequence[Sequence[int]]


def obj_text(vertices: NDArray[np.float64] = VERTICES, faces: Faces = FACES) -> bytes:
    rows = [f"v {x!r} {y!r} {z!r}" for x, y, z in vertices.tolist()]
    rows += ["f " + " ".join(str(index + 1) for index in face) for face in faces]
    return "\n".join(rows).encode() + b"\n"


def off_text(vertices: NDArray[np.float64] = VERTICES, faces: Faces = FACES) -> bytes:
    rows = ["OFF", f"{len(vertices)} {len(faces)} 0"]
    rows += [f"{x!r} {y!r} {z!r}" for x, y, z in vertices.tolist()]
    rows += [f"{len(face)} " + " ".join(map(str, face)) for face in faces]
    return "\n".join(rows).encode() + b"\n"


def ply_header(encoding: str, vertices: int, faces: int) -> bytes:
    return (
        f"ply\nformat {encoding} 1.0\nelement vertex {vertices}\nproperty double x\n"
        f"property double y\nproperty double z\nelement face {faces}\n"
        "property list uchar int vertex_indices\nend_header\n"
    ).encode()


def ply_text(vertices: NDArray[np.float64] = VERTICES, faces: Faces = FACES) -> bytes:
    body = off_text(vertices, faces).split(b"\n", 2)[2]
    return ply_header("ascii", len(vertices), len(faces)) + body


def ply_binary(
    vertices: NDArray[np.float64] = VERTICES, faces: Faces = FACES, order: str = "<"
) -> bytes:
    rows = [bytes([len(face)]) + np.array(face, order + "i4").tobytes() for face in faces]
    header = ply_header(PLY_ENCODINGS[order], len(vertices), len(faces))
    return header + vertices.astype(order + "f8").tobytes() + b"".join(rows)


PLY_ENCODINGS = {"": "ascii", "<": "binary_little_endian", ">": "binary_big_endian"}
PLY_TYPES = {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"}
PLY_TYPES |= {"float": "f4", "double": "f8", "int64": "i8"}


def ply_file(order: str, elements: dict[str, dict[str, list[Any]]]) -> bytes:
    """A PLY file of any elements; values by property, such as "float x" or "list uchar int a"."""
    header, body = ["ply", f"format {PLY_ENCODINGS[order]} 1.0"], b""
    for name, columns in elements.items():
        header += [f"element {name} {len(next(iter(columns.values())))}"]
        header += [f"property {column}" for column in columns]
        for row in zip(*columns.values(), strict=True):
            for column, value in zip(columns, row, strict=True):
                kinds = column.split()[:-1]
                parts = [(kinds[-1], value)]
                if kinds[0] == "list":
                    parts.insert(0, (kinds[1], len(value)))
                for kind, part in parts:
                    number = np.asarray(part, order + PLY_TYPES[kind])
                    text = "".join(f"{x!r} " for x in number.ravel().tolist()).encode()
                    body += number.tobytes() if order else text
            body += b"" if order else b"\n"
    return "\n".join([*header, "end_header", ""]).encode() + body


def stl_text(vertices: NDArray[np.float64] = VERTICES, faces: NDArray[np.int64] = FACES) -> bytes:
    rows = ["solid thing"]
    for corners in vertices[faces].tolist():
        rows += ["facet normal 0 0 0", "outer loop"]
        rows += [f"vertex {x!r} {y!r} {z!r}" for x, y, z in corners]
        rows += ["endloop", "endfacet"]
    return "\n".join([*rows, "endsolid thing"]).encode()


def stl_binary(vertices: NDArray[np.float64] = VERTICES, faces: NDArray[np.int64] = FACES) -> bytes:
    return trimesh.Trimesh(vertices, faces, process=False).export(file_type="stl")


def glb_trimesh(
    vertices: NDArray[np.float64] = VERTICES, faces: NDArray[np.int64] = FACES
) -> bytes:
    return trimesh.Trimesh(vertices, faces, process=False).export(file_type="glb")


def star(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """A planar polygon whose corners are all visible from the origin, (size, 2)."""
    gaps = rng.uniform(0.5, 1, size)  # none of half a turn
    angle = np.cumsum(gaps) / gaps.sum() * 2 * np.pi
    return rng.uniform(0.05, 1, (size, 1)) * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def gltf_text() -> bytes:
    described, binary = scene()
    described["buffers"][0]["uri"] = f"data:;base64,{base64.b64encode(binary).decode()}"
    return json.dumps(described).encode()


def threemf_part(vertices: NDArray[np.float64] = VERTICES, faces: Faces = FACES) -> str:
    rows = [f'<vertex x="{x!r}" y="{y!r}" z="{z!r}"/>' for x, y, z in vertices.tolist()]
    corners = [f'<triangle v1="{a}" v2="{b}" v3="{c}"/>' for a, b, c in faces]
    lists = f"<vertices>{''.join(rows)}</vertices><triangles>{''.join(corners)}</triangles>"
    return f"<mesh>{lists}</mesh>"


def threemf(part: str | None = None, other: str = "") -> bytes:
    """A 3MF file of one part; another one is in a second file, by the production extension."""
    part = threemf_part() if part is None else part
    space = "http://schemas.microsoft.com/3dmanufacturing"
    head = f'<model xmlns="{space}/core/2015/02" xmlns:p="{space}/production/2015/06"><resources>'
    built = '</resources><build><item objectid="{}"/></build></model>'
    place = '<components><component p:path="/3D/2.model" objectid="1"/></components>'
    more = f'<object id="2">{place}</object>' if other else ""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        text = f'{head}<object id="1">{part}</object>{more}{built.format(2 if other else 1)}'
        file.writestr(zipfile.ZipInfo("3D/3dmodel.model"), text)
        if other:
            text = f'{head}<object id="1">{other}</object>{built.format(1)}'
            file.writestr(zipfile.ZipInfo("3D/2.model"), text)
    return target.getvalue()


VTK_TYPES = {"f4": "Float32", "f8": "Float64", "u1": "UInt8", "i4": "Int32", "i8": "Int64"}
VTK_FORMS = ("ascii", "binary", "raw", "base64")  # appended, the last two


def vtp_stream(data: bytes, header: str, compress: Any, text: bool) -> bytes:
    """The bytes of an array behind their lengths, in blocks if compressed."""
    encode = base64.b64encode if text else bytes
    if compress is None:
        return encode(np.array(len(data), header).tobytes() + data)
    size = max(1, len(data) // 3)
    blocks = [data[k : k + size] for k in range(0, len(data), size)]
    last = len(data) % size  # 0 if all blocks are whole
    packed = [compress(block) for block in blocks]
    lengths = np.array([len(blocks), size, last, *map(len, packed)], header)
    return encode(lengths.tobytes()) + encode(b"".join(packed))


def vtp(
    vertices: NDArray[np.float64] = VERTICES, faces: Faces = FACES, form: str = "ascii",
    *, points: Any = None, cells: Any = None, header: str = "<u4", compress: Any = None,
    pieces: int = 1,
) -> bytes:  # fmt: skip
    """A VTP file with arrays of points and cells by name; pieces are copies."""
    appended = b""

    def array(name: str, values: object) -> str:
        nonlocal appended
        given = np.asarray(values)
        given = given.astype(given.dtype.newbyteorder(header[0]))
        kind, width = VTK_TYPES[given.dtype.str[1:]], given.shape[1] if given.ndim > 1 else 1
        start = f'<DataArray type="{kind}" Name="{name}" NumberOfComponents="{width}"'
        if form == "ascii":
            return f'{start} format="ascii">{words(given.ravel())}</DataArray>'
        stream = vtp_stream(given.tobytes(), header, compress, form != "raw")
        if form == "binary":
            return f'{start} format="binary">\n {stream.decode()}\n</DataArray>'
        appended += stream
        return f'{start} format="appended" offset="{len(appended) - len(stream)}"/>'

    def piece() -> str:
        corners = np.array([index for face in faces for index in face], np.int64)
        ends = np.cumsum([len(face) for face in faces], dtype=np.int64)
        parts = {
            "PointData": points or {}, "CellData": cells or {}, "Points": {"Points": vertices},
            "Polys": {"connectivity": corners, "offsets": ends},
        }  # fmt: skip
        inner = "".join(
            f"<{part}>{''.join(array(*item) for item in arrays.items())}</{part}>"
            for part, arrays in parts.items()
        )
        return f'<Piece NumberOfPoints="{len(vertices)}">{inner}</Piece>'

    order = {"<": "LittleEndian", ">": "BigEndian"}[header[0]]
    compressor = f'compressor="vtk{COMPRESSORS.get(compress, "ZLib")}DataCompressor" '
    head = f'<VTKFile type="PolyData" {compressor if compress else ""}byte_order="{order}" '
    head += f'header_type="UInt{8 * int(header[2])}">'
    body = "".join(piece() for _ in range(pieces))
    text = f'<?xml version="1.0"?>\n{head}<PolyData>{body}</PolyData>'.encode()
    if appended:
        text += f'<AppendedData encoding="{form}">_'.encode() + appended + b"</AppendedData>"
    return text + b"</VTKFile>"


COMPRESSORS = {zlib.compress: "ZLib", lzma.compress: "LZMA"}
SPELLINGS = {
    "binary.glb": glb_trimesh,
    "text.gltf": gltf_text,
    "text.obj": obj_text,
    "text.off": off_text,
    "text.ply": ply_text,
    "binary.ply": ply_binary,
    "text.stl": stl_text,
    "binary.stl": stl_binary,
    "text.vtp": vtp,
    "binary.vtp": partial(vtp, form="binary", compress=zlib.compress),
    "appended.vtp": partial(vtp, form="raw"),
}
if find_spec("lxml"):
    SPELLINGS["text.3mf"] = threemf


def pack(scene: object, binary: bytes = b"") -> bytes:
    """The container around a description, which may be text already."""
    text = scene if isinstance(scene, bytes) else json.dumps(scene).encode()
    text += b" " * (-len(text) % 4)
    binary += b"\0" * (-len(binary) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text
    if binary:
        chunks += struct.pack("<II", len(binary), 0x004E4942) + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def gltf(parts: dict[str, NDArray[Any]], **node: object) -> tuple[dict[str, Any], bytes]:
    """One mesh, once in the scene; ``parts`` are its attributes, and corners under no name."""
    components = {"f4": 5126, "u2": 5123, "u1": 5121, "i1": 5120, "i2": 5122}
    accessors, views, binary = [], [], b""
    for number, values in enumerate(parts.values()):
        kind = ("SCALAR", "VEC2", "VEC3", "VEC4")[values.shape[1] - 1]
        component = components[values.dtype.str[1:]]
        count = {"count": len(values), "normalized": component in (5120, 5121, 5122)}
        accessors += [{"bufferView": number, "componentType": component, "type": kind} | count]
        views += [{"buffer": 0, "byteOffset": len(binary), "byteLength": values.nbytes}]
        binary += values.tobytes() + b"\0" * (-values.nbytes % 4)
    names = {name: number for number, name in enumerate(parts)}
    indices = {"indices": names.pop("")} if "" in names else {}
    return {
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0} | node],
        "meshes": [{"primitives": [{"attributes": names} | indices]}],
        "accessors": accessors,
        "bufferViews": views,
        "buffers": [{"byteLength": len(binary)}],
    }, binary


CORNERS = FACES.reshape(-1, 1).astype("<u2")


def scene(**changes: Any) -> tuple[dict[str, Any], bytes]:
    """The mesh without attributes; changes replace entries of the description."""
    described, binary = gltf({"POSITION": VERTICES.astype("<f4"), "": CORNERS})
    return described | {"asset": {"version": "2.0"}, "scene": 0} | changes, binary


def glb_binary(**changes: Any) -> bytes:
    return pack(*scene(**changes))


HALF = 0.5**0.5
INSTANCES = {
    "TRANSLATION": np.array([[0, 0, 0], [10, 0, 0], [0, 0, 7]], "<f4"),
    # None, x to y, and a half turn about y.
    "ROTATION": np.array([[0, 0, 0, 1], [0, 0, HALF, HALF], [0, 1, 0, 0]], "<f4"),
    "SCALE": np.array([[1, 1, 1], [2, 2, 2], [1, -1, 1]], "<f4"),
}


def instanced(
    parts: dict[str, NDArray[Any]] = INSTANCES, **node: object
) -> tuple[dict[str, Any], bytes]:
    """The mesh with colors at the transforms of one node, by their names in the extension."""
    mesh = {"POSITION": VERTICES.astype("<f4"), "": CORNERS, "COLOR_0": BYTES.astype("u1")}
    described, binary = gltf(mesh | parts, **node)
    attributes = described["meshes"][0]["primitives"][0]["attributes"]
    moves = {name: attributes.pop(name) for name in parts}
    described["nodes"][0]["extensions"] = {"EXT_mesh_gpu_instancing": {"attributes": moves}}
    return described, binary


def with_accessor(number: int, **changes: Any) -> bytes:
    """With one accessor changed."""
    described, binary = scene()
    described["accessors"][number] |= changes
    return pack(described, binary)


def strip_or_fan(mode: int, count: int) -> bytes:
    """Points in the order of the file as one strip or fan."""
    points = np.random.default_rng(0).normal(size=(count, 3)).astype("<f4")
    described, binary = gltf({"POSITION": points})
    described["meshes"][0]["primitives"][0]["mode"] = mode
    return pack(described, binary)


RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (len(VERTICES), 4))  # colors per vertex
COLORS = BYTES / 255
FACE_BYTES = RNG.integers(0, 256, (len(FACES), 3))
NORMALS = RNG.integers(-8, 9, VERTICES.shape) / 8  # exact in every type
UV = RNG.integers(0, 9, (len(VERTICES), 2)) / 8
LABELS = RNG.integers(0, 7, len(FACES))


def words(values: object) -> str:
    return " ".join(map(repr, np.asarray(values).tolist()))


def obj_attributed() -> bytes:
    """Each corner has the texture coordinates and the normal of its vertex."""
    rows = [f"v {words(p)} {words(c)}" for p, c in zip(VERTICES, COLORS, strict=True)]
    rows += [f"vt {words(uv)}" for uv in UV] + [f"vn {words(n)}" for n in NORMALS]
    rows += ["f " + " ".join(f"{i}/{i}/{i}" for i in face) for face in (FACES + 1).tolist()]
    return "\n".join(rows).encode() + b"\n"


def off_attributed() -> bytes:
    rows = ["STCNOFF", f"{len(VERTICES)} {len(FACES)} 0"]
    columns = (VERTICES, NORMALS, BYTES, UV)
    rows += [" ".join(map(words, row)) for row in zip(*columns, strict=True)]
    rows += [f"3 {words(f)} {words(c)}" for f, c in zip(FACES, FACE_BYTES, strict=True)]
    return "\n".join(rows).encode() + b"\n"


def attributed_header(encoding: str) -> bytes:
    rows = [f"format {encoding} 1.0", f"element vertex {len(VERTICES)}"]
    rows += [f"property double {axis}" for axis in ("x", "y", "z", "nx", "ny", "nz", "s", "t")]
    rows += [f"property uchar {name}" for name in ("red", "green", "blue", "alpha")]
    rows += [f"element face {len(FACES)}", "property list uchar int vertex_indices"]
    rows += [f"property uchar {name}" for name in ("red", "green", "blue")]
    return "\n".join(["ply", *rows, "property int label", "end_header", ""]).encode()


def ply_text_attributed() -> bytes:
    rows = [" ".join(map(words, row)) for row in zip(VERTICES, NORMALS, UV, BYTES, strict=True)]
    columns = (FACES, FACE_BYTES, LABELS)
    rows += [f"3 {words(f)} {words(c)} {label}" for f, c, label in zip(*columns, strict=True)]
    return attributed_header("ascii") + "\n".join(rows).encode() + b"\n"


def ply_binary_attributed() -> bytes:
    vertex = np.zeros(len(VERTICES), [("numbers", ">f8", 8), ("color", "u1", 4)])
    vertex["numbers"], vertex["color"] = np.c_[VERTICES, NORMALS, UV], BYTES
    kind = [("n", "u1"), ("corners", ">i4", 3), ("color", "u1", 3), ("label", ">i4")]
    face = np.zeros(len(FACES), kind)
    face["n"], face["corners"], face["color"], face["label"] = 3, FACES, FACE_BYTES, LABELS
    return attributed_header("binary_big_endian") + vertex.tobytes() + face.tobytes()


def glb_attributed(**node: object) -> bytes:
    parts = {"POSITION": VERTICES.astype("<f4"), "NORMAL": NORMALS.astype("<f4")}
    parts |= {"TEXCOORD_0": UV.astype("<f4"), "COLOR_0": BYTES.astype("u1"), "": CORNERS}
    return pack(*gltf(parts, **node))


ATTRIBUTED = {
    "attributed.glb": glb_attributed,
    "attributed.obj": obj_attributed,
    "attributed.off": off_attributed,
    "attributed_text.ply": ply_text_attributed,
    "attributed_binary.ply": ply_binary_attributed,
}


TRIANGLE = b"v 0 0 0\nv 1 0 0\nv 0 1 0\n"
MILLIONS = 5_000_000
SECONDS = 12.0  # of processor time to load or reject a hostile file: 1.2 at most


PLACES = TRIANGLE.replace(b"v ", b"")


def ply_with_comments(count: int, text: bytes = b"nothing") -> bytes:
    return ply_text().replace(b"element", (b"comment " + text + b"\n") * count + b"element", 1)


def blank_ply(count: int) -> bytes:
    return b"ply\n" + b"\n" * count + b"end_header\n"


def ply_with_lists(count: int) -> bytes:
    lists = b"property list uchar int a%d\n"
    many = b"".join(lists % k for k in range(count))
    header = b"ply\nformat binary_little_endian 1.0\nelement face 1\n" + many
    return header + b"end_header\n" + bytes(10**5)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "comments.ply": (lambda: ply_with_comments(2_000_000), "no 'end_header' in its first 1048576"),
    "false_end.ply": (
        lambda: ply_with_comments(2_000_000, b"end_headers"), "no 'end_header' in its first 1048576"
    ),
    "blank.ply": (lambda: blank_ply(10**6), "must have the format ascii"),
    "blank_long.ply": (lambda: blank_ply(10**7), "no 'end_header'"),
    "lists.ply": (lambda: ply_with_lists(20_000), "20001 elements and properties, more than 256"),
    "corners.ply": (
        lambda: ply_header("ascii", 3, 1) + PLACES + b"%d " % MILLIONS + b"1 " * MILLIONS,
        "row 0 of 'face' has '5000000' for a number of type uchar",
    ),
    "promise.ply": (lambda: ply_header("ascii", 10**17, 10**17) + b"0 0 0\n", "announces 1000000"),
    "list_length.ply": (
        lambda: (
            ply_header("binary_little_endian", 0, 3).replace(b"uchar", b"uint") + b"\xff" * 10**6
        ),
        "row 0 of 'face' has a list of 4294967295 numbers, beyond the end",
    ),
    "corners.obj": (lambda: TRIANGLE + b"f" + b" 1" * MILLIONS, "face 0 has 5000000 corners"),
    "continued.obj": (
        lambda: TRIANGLE + b"f" + b" 1 \\\n" * (MILLIONS // 2),
        "face 0 has 2500000 corners, more than 65536; cut it into triangles",
    ),
    "no_numbers.obj": (
        lambda: b"v x y z\n" * 600_000 + b"f 1 2 3\n",
        "more than 65536 coordinates that are no numbers",
    ),
    "no_indices.obj": (
        lambda: TRIANGLE + b"f 1 2 3\n" * 500_000 + b"f a b c\n",
        "line 500004: expected a vertex number, got 'a'",
    ),
    "slashes.obj": (lambda: TRIANGLE + b"f / // /1\n" * 200_000, "expected a vertex number, got"),
    "corners.off": (
        lambda: b"OFF 3 1 0\n" + PLACES + b"%d" % MILLIONS + b" 1" * MILLIONS,
        "face 0 has 5000000 corners, more than 65536",
    ),
    "promise.off": (lambda: b"OFF %d 1 0\n0 0 0\n" % 10**17, "announces 100000000000000000"),
    "words.off": (lambda: b"OFF 1000 1000 0\n" + b"a " * MILLIONS, "announces|expected"),
    "solids.stl": (lambda: b"solid\nendsolid\n" * 10**6, "has no faces"),
    "promise.stl": (lambda: bytes(80) + b"\xff" * 4 + bytes(500), "announces 4294967295 triangles"),
    "entities.vtp": (
        lambda: b'<!DOCTYPE x [<!ENTITY a "aaaa">]>' + vtp().replace(b"ascii", b"&a;"),
        "declares a document type",
    ),
    "unpacked.vtp": (
        lambda: vtp(form="raw", compress=lambda data: zlib.compress(bytes(10**7))),
        "is damaged",
    ),
    "promise.vtp": (
        lambda: vtp(form="raw", compress=zlib.compress).replace(
            np.array([3, 40], "<u4").tobytes(), np.array([3, 2**31 - 1], "<u4").tobytes()
        ),
        "unpacks to more than 2147483648 bytes",
    ),
    "corners.vtp": (
        lambda: vtp(VERTICES, [[0, 1, 2] * 30_000]),
        "face 0 has 90000 corners, more than 65536",
    ),
    "noise.stl": (lambda: b"solid" + np.random.default_rng(0).bytes(10**6), "announces|is not|can"),
}  # fmt: skip
