"""One small closed mesh, written in every format that the readers know."""

import struct

import numpy as np
import trimesh
from numpy.typing import NDArray

VERTICES = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]], np.float64)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 4], [1, 4, 3], [2, 3, 4]])


def obj_text(vertices: NDArray[np.float64] = VERTICES, faces: NDArray[np.int64] = FACES) -> bytes:
    rows = [f"v {x!r} {y!r} {z!r}" for x, y, z in vertices.tolist()]
    rows += ["f " + " ".join(str(index + 1) for index in face) for face in faces.tolist()]
    return "\n".join(rows).encode() + b"\n"


def off_text(vertices: NDArray[np.float64] = VERTICES, faces: NDArray[np.int64] = FACES) -> bytes:
    rows = ["OFF", f"{len(vertices)} {len(faces)} 0"]
    rows += [f"{x!r} {y!r} {z!r}" for x, y, z in vertices.tolist()]
    rows += [f"{len(face)} " + " ".join(map(str, face)) for face in faces.tolist()]
    return "\n".join(rows).encode() + b"\n"


def ply_header(encoding: str, vertices: int, faces: int) -> bytes:
    return (
        f"ply\nformat {encoding} 1.0\nelement vertex {vertices}\nproperty double x\n"
        f"property double y\nproperty double z\nelement face {faces}\n"
        "property list uchar int vertex_indices\nend_header\n"
    ).encode()


def ply_text(vertices: NDArray[np.float64] = VERTICES, faces: NDArray[np.int64] = FACES) -> bytes:
    body = off_text(vertices, faces).split(b"\n", 2)[2]
    return ply_header("ascii", len(vertices), len(faces)) + body


def ply_binary(vertices: NDArray[np.float64] = VERTICES, faces: NDArray[np.int64] = FACES) -> bytes:
    rows = np.zeros(len(faces), [("size", "u1"), ("corners", "<i4", faces.shape[1:])])
    rows["size"], rows["corners"] = faces.shape[1], faces
    header = ply_header("binary_little_endian", len(vertices), len(faces))
    return header + vertices.astype("<f8").tobytes() + rows.tobytes()


def stl_text(vertices: NDArray[np.float64] = VERTICES, faces: NDArray[np.int64] = FACES) -> bytes:
    rows = ["solid thing"]
    for corners in vertices[faces].tolist():
        rows += ["facet normal 0 0 0", "outer loop"]
        rows += [f"vertex {x!r} {y!r} {z!r}" for x, y, z in corners]
        rows += ["endloop", "endfacet"]
    return "\n".join([*rows, "endsolid thing"]).encode()


def stl_binary(vertices: NDArray[np.float64] = VERTICES, faces: NDArray[np.int64] = FACES) -> bytes:
    kind = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    rows = np.zeros(len(faces), kind)
    rows["corners"] = vertices[faces]
    return b"\0" * 80 + struct.pack("<I", len(faces)) + rows.tobytes()


def glb_binary(vertices: NDArray[np.float64] = VERTICES, faces: NDArray[np.int64] = FACES) -> bytes:
    mesh = trimesh.Trimesh(vertices, faces, process=False)
    return trimesh.Scene([mesh]).export(file_type="glb")


SPELLINGS = {
    "binary.glb": glb_binary,
    "text.obj": obj_text,
    "text.off": off_text,
    "text.ply": ply_text,
    "binary.ply": ply_binary,
    "text.stl": stl_text,
    "binary.stl": stl_binary,
}
