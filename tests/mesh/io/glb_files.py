"""GLB files, written from a description."""

import json
import struct
from typing import Any

import numpy as np

from tests.mesh.io.mesh_texts import FACES, VERTICES


def pack(scene: object, binary: bytes = b"") -> bytes:
    """The container around a description, which may be text already."""
    text = scene if isinstance(scene, bytes) else json.dumps(scene).encode()
    text += b" " * (-len(text) % 4)
    binary += b"\0" * (-len(binary) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text
    if binary:
        chunks += struct.pack("<II", len(binary), 0x004E4942) + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def scene(**changes: Any) -> tuple[dict[str, Any], bytes]:
    """One mesh, once in the scene; changes replace entries of the description."""
    points = VERTICES.astype("<f4").tobytes()
    faces = FACES.astype("<u2").tobytes()
    described: dict[str, Any] = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": len(VERTICES), "type": "VEC3"},
            {"bufferView": 1, "componentType": 5123, "count": FACES.size, "type": "SCALAR"},
        ],
        "bufferViews": [
            {"buffer": 0, "byteOffset": 0, "byteLength": len(points)},
            {"buffer": 0, "byteOffset": len(points), "byteLength": len(faces)},
        ],
        "buffers": [{"byteLength": len(points) + len(faces)}],
    }
    return described | changes, points + faces


def glb_binary(**changes: Any) -> bytes:
    return pack(*scene(**changes))


def with_accessor(number: int, **changes: Any) -> bytes:
    """With one accessor changed."""
    described, binary = scene()
    described["accessors"][number] |= changes
    return pack(described, binary)


def strip_or_fan(mode: int, count: int) -> bytes:
    """Points in the order of the file as one strip or fan."""
    points = np.random.default_rng(0).normal(size=(count, 3)).astype("<f4").tobytes()
    return pack(
        {
            "scenes": [{"nodes": [0]}],
            "nodes": [{"mesh": 0}],
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "mode": mode}]}],
            "accessors": [{"bufferView": 0, "componentType": 5126, "count": count, "type": "VEC3"}],
            "bufferViews": [{"buffer": 0, "byteLength": len(points)}],
            "buffers": [{"byteLength": len(points)}],
        },
        points,
    )
