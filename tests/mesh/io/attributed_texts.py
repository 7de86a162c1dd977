"""The mesh of ``mesh_texts`` with colors, normals and texture coordinates, in every format."""

import numpy as np

from tests.mesh.io.glb_files import pack
from tests.mesh.io.mesh_texts import FACES, VERTICES

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


def ply_header(encoding: str) -> bytes:
    rows = [f"format {encoding} 1.0", f"element vertex {len(VERTICES)}"]
    rows += [f"property double {axis}" for axis in ("x", "y", "z", "nx", "ny", "nz", "s", "t")]
    rows += [f"property uchar {name}" for name in ("red", "green", "blue", "alpha")]
    rows += [f"element face {len(FACES)}", "property list uchar int vertex_indices"]
    rows += [f"property uchar {name}" for name in ("red", "green", "blue")]
    return "\n".join(["ply", *rows, "property int label", "end_header", ""]).encode()


def ply_text() -> bytes:
    rows = [" ".join(map(words, row)) for row in zip(VERTICES, NORMALS, UV, BYTES, strict=True)]
    columns = (FACES, FACE_BYTES, LABELS)
    rows += [f"3 {words(f)} {words(c)} {label}" for f, c, label in zip(*columns, strict=True)]
    return ply_header("ascii") + "\n".join(rows).encode() + b"\n"


def ply_binary() -> bytes:
    vertex = np.zeros(len(VERTICES), [("numbers", ">f8", 8), ("color", "u1", 4)])
    vertex["numbers"], vertex["color"] = np.c_[VERTICES, NORMALS, UV], BYTES
    kind = [("n", "u1"), ("corners", ">i4", 3), ("color", "u1", 3), ("label", ">i4")]
    face = np.zeros(len(FACES), kind)
    face["n"], face["corners"], face["color"], face["label"] = 3, FACES, FACE_BYTES, LABELS
    return ply_header("binary_big_endian") + vertex.tobytes() + face.tobytes()


def glb_attributed(**node: object) -> bytes:
    parts = {
        "POSITION": (VERTICES.astype("<f4"), 5126, "VEC3"),
        "NORMAL": (NORMALS.astype("<f4"), 5126, "VEC3"),
        "TEXCOORD_0": (UV.astype("<f4"), 5126, "VEC2"),
        "COLOR_0": (BYTES.astype("u1"), 5121, "VEC4"),
        "": (FACES.reshape(-1, 1).astype("<u2"), 5123, "SCALAR"),
    }
    accessors, views, binary = [], [], b""
    for number, (values, component, kind) in enumerate(parts.values()):
        count = {"count": len(values), "normalized": values.dtype == np.uint8}
        accessors += [{"bufferView": number, "componentType": component, "type": kind} | count]
        views += [{"buffer": 0, "byteOffset": len(binary), "byteLength": values.nbytes}]
        binary += values.tobytes() + b"\0" * (-values.nbytes % 4)
    attributes = {name: number for number, name in enumerate(parts) if name}
    described = {
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0} | node],
        "meshes": [{"primitives": [{"attributes": attributes, "indices": len(parts) - 1}]}],
        "accessors": accessors,
        "bufferViews": views,
        "buffers": [{"byteLength": len(binary)}],
    }
    return pack(described, binary)


ATTRIBUTED = {
    "attributed.glb": glb_attributed,
    "attributed.obj": obj_attributed,
    "attributed.off": off_attributed,
    "attributed_text.ply": ply_text,
    "attributed_binary.ply": ply_binary,
}
