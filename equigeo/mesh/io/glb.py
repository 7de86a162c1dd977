"""Reader for glTF 2.0, and for GLB, its binary form."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.connectivity import coincident_points
from equigeo.mesh.io.file_mesh import (
    MAX_FILE_BYTES,
    MAX_GLB_JSON,
    MAX_NODES,
    MAX_SCENE,
    FileAttributes,
    FileMesh,
    differing_attributes,
    join_attributes,
    scale_colors,
)

# Attributes that are read, and the types that they may have.
_KINDS = {
    "COLOR_0": ("color", ("VEC3", "VEC4")),
    "NORMAL": ("normal", ("VEC3",)),
    "TEXCOORD_0": ("uv", ("VEC2",)),
}
_NAMED = 5  # warnings that are given one by one
_LONGEST = 40  # characters of a name in them
_JSON, _BINARY = 0x4E4F534A, 0x004E4942  # types of chunks: "JSON" and "BIN\0"
_COMPONENTS = {5120: "i1", 5121: "u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_TRIANGLES, _STRIP, _FAN = 4, 5, 6  # modes of a primitive; others are points and lines
_WIDTH = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}
_MOVES = {"matrix", "translation", "rotation", "scale"}  # keys of the transform of a node
_LEAST = 1024  # for how many vertices a primitive counts at least
_INSTANCING = "EXT_mesh_gpu_instancing"
_READ = (_INSTANCING, "KHR_mesh_quantization")
# Beginnings of extensions of materials, images, lights and descriptions, which are not read.
_HARMLESS = ("KHR_materials_", "KHR_texture_", "EXT_texture_", "MSFT_texture_", "KHR_lights_",
             "EXT_lights_", "KHR_xmp")  # fmt: skip


def read_glb(
    data: bytes,
    folder: Path | None = None,  # of other files
) -> FileMesh:
    """Read all triangles of the scene of a GLB file, each mesh transformed by its nodes."""
    return _read(_File.of(*_description(data), folder))


def read_gltf(data: bytes, folder: Path | None = None) -> FileMesh:
    """Read a glTF file with its buffers as :func:`read_glb` does."""
    return _read(_File.of(data, b"", folder))


def _read(file: _File) -> FileMesh:
    points, corners, shift = [np.zeros((0, 3))], [np.zeros(0, np.int64)], 0
    parts = []
    for primitive, transform in file.parts():
        position, triangles = file.read(primitive)
        points.append(_moved(position, transform))
        parts.append(file.attributes(primitive.attributes, len(position), transform))
        with np.errstate(all="ignore"):  # faces with non-finite vertices are dropped later
            mirrored = np.linalg.det(transform[:3, :3]) < 0
        # glTF 2.0: a node with a negative determinant reverses the winding.
        corners.append((triangles[:, [0, 2, 1]] if mirrored else triangles).ravel() + shift)
        shift += len(position)
    vertices, joined = np.concatenate(points), np.concatenate(corners)
    # The format repeats a vertex per normal and texture coordinate, so equal positions are one
    # vertex here; attributes that differ move to corners.
    first, vertex = np.unique(coincident_points(vertices, 0.0), return_inverse=True)
    united = vertex.reshape(-1)[joined]
    sizes = np.full(len(joined) // 3, 3, np.int64)
    values, notes = join_attributes(parts, [len(position) for position in points[1:]])
    attributes = FileAttributes(
        {name: column[first] for name, column in values.items()},
        {},
        differing_attributes(values, joined, first[united]),
        (*file.warnings, *notes),
    )
    return FileMesh(vertices[first], united, sizes, attributes=attributes)


@dataclass(frozen=True)
class _Primitive:
    """Triangles of one material: accessor indices and lengths, and weighted morph targets."""

    position: object
    indices: object
    mode: int
    vertices: int
    corners: int
    attributes: dict[str, object]
    targets: tuple[object, ...] = ()
    weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class _File:
    """Parsed JSON description of a scene, and the binary chunk."""

    scene: dict[str, Any]
    binary: bytes
    folder: Path | None = None  # of other files
    read_buffers: dict[int, bytes] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)  # on attributes that are not read

    @classmethod
    def of(cls, text: bytes, binary: bytes, folder: Path | None) -> _File:
        try:
            scene = json.loads(text)
        except (ValueError, RecursionError):
            raise MeshError("has a description that is no JSON: it is damaged") from None
        if not isinstance(scene, dict):
            raise MeshError("has a description that is no JSON object: it is damaged")
        for name in _items(scene, "extensionsRequired", str):
            if "compression" in name.lower():
                raise MeshError(f"is compressed ({name[:80]}); export it without compression")
            if name not in _READ and not name.startswith(_HARMLESS):
                raise MeshError(
                    f"requires the extension {name[:80]!r}, which is not supported; export it "
                    "without this extension"
                )
        return cls(scene, binary, folder)

    def entry(self, kind: str, number: object) -> dict[str, Any]:
        """Return one object of a list in the description."""
        entries = self.scene.get(kind, [])
        count = len(entries) if isinstance(entries, list) else 0
        if not isinstance(number, int) or not 0 <= number < count:
            raise MeshError(f"refers to number {_short(number)} of {count} {kind}")
        if not isinstance(entries[number], dict):
            raise MeshError(f"has {kind} whose number {number} is no object; it is damaged")
        return entries[number]

    def parts(self) -> list[tuple[_Primitive, NDArray[np.float64]]]:
        """Return all primitives of the scene after validating their total size."""
        meshes: dict[object, list[_Primitive]] = {}
        found: list[tuple[_Primitive, NDArray[np.float64]]] = []
        total = 0
        with np.errstate(all="ignore"):  # faces with non-finite vertices are dropped later
            instances = self.instances()
        for number, transform, weights in instances:
            self.entry("meshes", number)
            if number not in meshes:
                meshes[number] = self.mesh(number)
            weighted = [self._weighted(p, weights) for p in meshes[number]]
            total += sum(
                max(p.vertices * (1 + len(p.targets)) + 3 * p.corners, _LEAST) for p in weighted
            )
            if total > MAX_SCENE:
                raise MeshError(
                    f"has a scene of more than {MAX_SCENE} vertices and corners; simplify it"
                )
            found += [(primitive, transform) for primitive in weighted]
        if sum(p.vertices * (1 + len(p.attributes)) + 3 * p.corners for p, _ in found) > MAX_SCENE:
            self.notes["the scene is too large for its attributes; they are left out"] = None
            found = [(replace(primitive, attributes={}), at) for primitive, at in found]
        return found

    def _weighted(self, primitive: _Primitive, weights: list[Any]) -> _Primitive:
        """Return a primitive with its active morph targets, without normals if there are any."""
        pairs = zip(primitive.targets, weights or primitive.weights, strict=False)
        try:
            moving = [(target, float(w)) for target, w in pairs if w and target is not None]
        except OverflowError:
            raise MeshError(
                "has a weight that is no number of float64; export the mesh again"
            ) from None
        if not moving:
            return replace(primitive, targets=(), weights=())
        targets, values = zip(*moving, strict=True)
        attributes = {key: x for key, x in primitive.attributes.items() if key != "NORMAL"}
        if attributes != primitive.attributes:
            self.notes["normals of a mesh that morph targets move are left out"] = None
        return replace(primitive, targets=targets, weights=values, attributes=attributes)

    def instances(self) -> list[tuple[object, NDArray[np.float64], list[Any]]]:
        """Return the meshes of the scene in node order, with transforms and morph weights."""
        found: list[tuple[object, NDArray[np.float64], list[Any]]] = []
        todo = [(number, np.eye(4)) for number in reversed(self._roots())]
        seen: set[object] = set()
        while todo:
            number, parent = todo.pop()
            node = self.entry("nodes", number)
            if number in seen:  # shared nodes would make a scene of any size
                raise MeshError(f"has node {number} in two places; nodes must form a tree")
            seen.add(number)
            transform = parent @ _transform(node) if _MOVES & node.keys() else parent
            if "mesh" in node:
                weights = _items(node, "weights", (int, float))
                if "skin" in node:
                    self.notes["skins are not applied: meshes are in their bind pose"] = None
                found += [(node["mesh"], transform @ copy, weights) for copy in self._copies(node)]
            if len(seen) > MAX_NODES or len(found) > MAX_NODES:
                raise MeshError(
                    f"has a scene of more than {MAX_NODES} nodes or instances; simplify it"
                )
            todo += [(child, transform) for child in reversed(_items(node, "children", int))]
        if not self.scene.get("scenes") and not self.scene.get("nodes"):
            meshes = range(len(_items(self.scene, "meshes", dict)))
            return [(number, np.eye(4), []) for number in meshes]
        return found

    def _roots(self) -> list[int]:
        scenes = _items(self.scene, "scenes", dict)
        if scenes:
            if len(scenes) > 1:
                self.notes[f"not read: all but one of {len(scenes)} scenes"] = None
            return _items(self.entry("scenes", self.scene.get("scene", 0)), "nodes", int)
        nodes = _items(self.scene, "nodes", dict)
        children = {child for node in nodes for child in _items(node, "children", int)}
        return [number for number in range(len(nodes)) if number not in children]

    def _copies(self, node: dict[str, Any]) -> NDArray[np.float64]:
        """Return the transforms (instances, 4, 4) of the mesh of a node within the node."""
        attributes = _object(_object(_object(node, "extensions"), _INSTANCING), "attributes")
        if _INSTANCING not in _object(node, "extensions"):
            return np.eye(4)[None]
        counts = {self._count(number) for number in attributes.values()}
        if len(counts) != 1 or max(counts) > MAX_NODES:
            raise MeshError(
                f"has instances of a mesh with {sorted(counts)[:3]} transforms; expected one "
                f"number, of at most {MAX_NODES}"
            )
        (count,) = counts
        found = []
        for name, kind, default in (
            ("TRANSLATION", "VEC3", [0.0, 0, 0]),
            ("ROTATION", "VEC4", [0.0, 0, 0, 1]),
            ("SCALE", "VEC3", [1.0, 1, 1]),
        ):
            number = attributes.pop(name, None)
            given = (
                np.tile(default, (count, 1)) if number is None else self.accessor(number, (kind,))
            )
            found.append(given.astype(np.float64))
        for name in attributes:
            self.notes[f"not read: attribute {name[:_LONGEST]!r} of instances"] = None
        translation, rotation, scale = found
        rotation /= np.linalg.norm(rotation, axis=1, keepdims=True)  # may be stored in 8 bits
        return _composed(translation, rotation, scale)

    def mesh(self, number: object) -> list[_Primitive]:
        found = []
        weights = tuple(_items(self.entry("meshes", number), "weights", (int, float)))
        for primitive in _items(self.entry("meshes", number), "primitives", dict):
            mode = primitive.get("mode", _TRIANGLES)
            if mode not in (_TRIANGLES, _STRIP, _FAN):
                self.notes["not read: points and lines"] = None
                continue
            attributes = primitive.get("attributes", {})
            attributes = attributes if isinstance(attributes, dict) else {}
            position = attributes.get("POSITION")
            vertices = corners = self._count(position)
            if "indices" in primitive:
                corners = self._count(primitive["indices"])
            indices = primitive.get("indices")
            wanted = self.wanted(attributes)
            targets = tuple(x.get("POSITION") for x in _items(primitive, "targets", dict))
            found.append(
                _Primitive(position, indices, mode, vertices, corners, wanted, targets, weights)
            )
        return found

    def read(self, primitive: _Primitive) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Read positions (vertices, 3) and triangles (faces, 3)."""
        with np.errstate(all="ignore"):  # a signaling NaN of float32 complains when it is widened
            points = self.accessor(primitive.position, ("VEC3",)).astype(np.float64)
            for target, weight in zip(primitive.targets, primitive.weights, strict=True):
                moves = self.accessor(target, ("VEC3",))
                if len(moves) != len(points):
                    raise MeshError("has a morph target of other vertices; export it without")
                points = points + weight * moves
        order = np.arange(len(points))
        if primitive.indices is not None:
            order = self.accessor(primitive.indices, ("SCALAR",))[:, 0]
            if order.dtype.kind != "u":
                raise MeshError("numbers its vertices by other than unsigned integers")
            order = order.astype(np.int64)
            if len(order) and order.max() >= len(points):
                raise MeshError(
                    f"refers to vertex {order.max()} of a mesh that has {len(points)} "
                    "(counted from 0); export the mesh again"
                )
        return points, _triangles(order, primitive.mode)

    def _count(self, number: object) -> int:
        return _whole(self.entry("accessors", number), "count")

    def accessor(self, number: object, kinds: tuple[str, ...]) -> NDArray[Any]:
        """Read a list of vectors or numbers of one of the given types, (count, width)."""
        accessor, count = self.entry("accessors", number), self._count(number)
        component = _COMPONENTS.get(_whole(accessor, "componentType"))
        kind = accessor.get("type")
        if kind not in kinds or component is None:
            wanted = " or ".join(kinds)
            raise MeshError(
                f"has an accessor that is no {wanted} of numbers; export the mesh again"
            )
        width, dtype = _WIDTH[kind], np.dtype(component)
        if "sparse" in accessor or "bufferView" not in accessor:
            raise MeshError("has a sparse accessor, which is not supported; export it without")
        view = self.entry("bufferViews", accessor["bufferView"])
        buffer = _whole(view, "buffer", 0)
        if buffer != 0 and (compressed := [k for k in _object(view, "extensions") if "comp" in k]):
            raise MeshError(f"is compressed ({compressed[0][:80]}); export it without compression")
        binary = self._buffer(buffer)
        begin, start = _whole(view, "byteOffset", 0), _whole(accessor, "byteOffset", 0)
        item = width * dtype.itemsize
        stride, length = _whole(view, "byteStride", item), _whole(view, "byteLength")
        fits = start + max(count - 1, 0) * stride + item <= length
        if count and (stride < item or not fits or begin + length > len(binary)):
            raise MeshError(
                f"announces {count} numbers but has only {len(binary)} bytes of them: it is "
                "truncated or damaged; export the mesh again"
            )
        if not count:
            return np.zeros((0, width), dtype)
        strides = (stride, dtype.itemsize)
        found = np.ndarray((count, width), dtype, binary, begin + start, strides)
        return _denormalized(found) if accessor.get("normalized") is True else found

    def _buffer(self, number: int) -> bytes:
        """Return the content of a buffer: of the file itself, of text in it, or of another file."""
        uri = self.entry("buffers", number).get("uri")
        if uri is None and number == 0:
            return self.binary
        if number not in self.read_buffers:
            self.read_buffers[number] = self._other(uri)
        return self.read_buffers[number]

    def _other(self, uri: object) -> bytes:
        kind, is_text, text = str(uri).partition(";base64,")
        if is_text and kind.startswith("data:"):
            try:
                return base64.b64decode(text, validate=True)
            except ValueError:  # also for text beyond ASCII
                raise MeshError("has a buffer that is no base64; export it again") from None
        name = unquote(str(uri))
        path = (self.folder or Path()) / name
        # No address, and no path that leaves the folder.
        leaves = ":" in name or "\0" in name or ".." in path.parts or Path(name).is_absolute()
        if self.folder is None or not isinstance(uri, str) or leaves:
            raise MeshError(f"keeps numbers in {_short(uri)}, which is no file beside it")
        if not path.is_file():
            raise MeshError(f"keeps numbers in {_short(name)}, which is missing beside it")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise MeshError(f"keeps numbers in {_short(name)}, of more than {MAX_FILE_BYTES} bytes")
        return path.read_bytes()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the first notes and their total number."""
        notes = list(self.notes)
        more = len(notes) - _NAMED
        return (*notes[:_NAMED], *([f"{more} more parts are not read"] if more > 0 else ()))

    def wanted(self, attributes: dict[str, Any]) -> dict[str, object]:
        """Return the accessors of the supported attributes of a part."""
        for key in attributes:
            if key not in _KINDS and key != "POSITION":
                self.notes[f"not read: attribute {key[:_LONGEST]!r}"] = None
        return {key: attributes[key] for key in _KINDS if key in attributes}

    def attributes(
        self, wanted: dict[str, object], vertices: int, transform: NDArray[np.float64]
    ) -> dict[str, NDArray[np.float64]]:
        """Return the attributes (vertices, width) of a part after its (4, 4) transform."""
        found: dict[str, NDArray[np.float64]] = {}
        for key, number in wanted.items():
            name, kinds = _KINDS[key]
            try:
                values = self.accessor(number, kinds)
            except MeshError as error:
                self.notes[f"{name} of a mesh is left out: the file {error}"] = None
                continue
            if len(values) != vertices:
                self.notes[f"{name} of a mesh is left out: not one for each vertex"] = None
                continue
            scaled = scale_colors(values) if name == "color" else values
            if scaled is None:
                self.notes["color of a mesh is left out: out of range"] = None
                continue
            with np.errstate(all="ignore"):  # a signaling NaN complains when it is widened
                scaled = scaled.astype(np.float64)
            found[name] = _turned(scaled, transform) if name == "normal" else scaled
        return found


def _description(data: bytes) -> tuple[bytes, bytes]:
    """Return the JSON description and the binary chunk of a GLB file."""
    if len(data) < 20 or data[:4] != b"glTF":
        raise MeshError("is not a GLB file: no 'glTF' at its start; check the extension")
    version, length = struct.unpack_from("<II", data, 4)
    if version != 2:
        raise MeshError(f"is glTF of version {version}; export it as version 2")
    if length > len(data):
        raise MeshError(f"announces {length} bytes but has {len(data)}: it is truncated")
    chunks = dict(_chunks(data[:length]))
    text = chunks.get(_JSON, b"")
    if len(text) > MAX_GLB_JSON:
        raise MeshError(f"describes itself in {len(text)} bytes, more than {MAX_GLB_JSON}")
    return text, chunks.get(_BINARY, b"")


def _chunks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Return types and contents of the first two chunks."""
    at = 12
    for _ in range(2):
        if at + 8 > len(data):
            return
        length, kind = struct.unpack_from("<II", data, at)
        if at + 8 + length > len(data):
            raise MeshError(f"announces a part of {length} bytes beyond its end: it is truncated")
        yield kind, data[at + 8 : at + 8 + length]
        at += 8 + length


def _items(holder: dict[str, Any], name: str, kind: type | tuple[type, ...]) -> list[Any]:
    """Return a list of the description; empty if missing."""
    found = holder.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, kind) for item in found):
        raise MeshError(f"has {name!r} that are no list of such; export the mesh again")
    return found


def _object(holder: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a copy of an object of the description; empty if missing."""
    found = holder.get(name, {})
    if not isinstance(found, dict):
        raise MeshError(f"has {name!r} that are no object; export the mesh again")
    return dict(found)


def _whole(holder: dict[str, Any], name: str, default: int | None = None) -> int:
    """Return a non-negative integer of the description."""
    value = holder.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
        raise MeshError(f"has {name!r} of {_short(value)}, which is no number of things")
    return value


def _short(value: object) -> str:
    return repr(value)[:40]


def _transform(node: dict[str, Any]) -> NDArray[np.float64]:
    """Return the matrix (4, 4) of a node, given directly or as scale, rotation and translation."""
    if "matrix" in node:
        columns = np.array(_numbers(node["matrix"], 16), np.float64)
        return columns.reshape(4, 4).T
    rotation = _numbers(node.get("rotation", [0, 0, 0, 1]), 4)
    scale = _numbers(node.get("scale", [1, 1, 1]), 3)
    translation = _numbers(node.get("translation", [0, 0, 0]), 3)
    return _composed(*(np.array([part]) for part in (translation, rotation, scale)))[0]


def _composed(
    translation: NDArray[np.float64],  # (n, 3)
    rotation: NDArray[np.float64],  # (n, 4) unit quaternions x, y, z, w
    scale: NDArray[np.float64],  # (n, 3)
) -> NDArray[np.float64]:
    """Return matrices (n, 4, 4) that scale, rotate and translate, in this order."""
    x, y, z, w = rotation.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    matrices = np.tile(np.eye(4), (len(scale), 1, 1))
    matrices[:, :3, :3] = np.moveaxis(np.array(rows), 2, 0) * scale[:, None]
    matrices[:, :3, 3] = translation
    return matrices


def _numbers(values: object, count: int) -> list[float]:
    if not isinstance(values, list) or len(values) != count:
        raise MeshError(f"has a node that is not moved by {count} numbers; export the mesh again")
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        raise MeshError("has a node that is moved by no numbers; export the mesh again") from None


def _moved(points: NDArray[np.float64], transform: NDArray[np.float64]) -> NDArray[np.float64]:
    if np.array_equal(transform, np.eye(4)):  # to the bit
        return points
    with np.errstate(all="ignore"):
        return points @ transform[:3, :3].T + transform[:3, 3]


def _denormalized(values: NDArray[Any]) -> NDArray[np.float64]:
    """Convert normalized integers to floats in [0, 1], or [-1, 1] if signed."""
    if values.dtype.kind == "f":
        return values
    return np.maximum(values / np.iinfo(values.dtype).max, -1.0)


def _triangles(order: NDArray[np.int64], mode: int) -> NDArray[np.int64]:
    """Return the triangles of a list, a strip (every other triangle reversed) or a fan."""
    if mode == _TRIANGLES:
        if len(order) % 3:
            raise MeshError(f"has {len(order)} corners of triangles; export the mesh again")
        return order.reshape(-1, 3)
    first = np.arange(max(len(order) - 2, 0))
    if mode == _FAN:
        return np.stack([order[first + 1], order[first + 2], order[np.zeros_like(first)]], axis=1)
    odd = first % 2
    return np.stack([order[first], order[first + 1 + odd], order[first + 2 - odd]], axis=1)


def _turned(normals: NDArray[np.float64], transform: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the normals of a transformed surface, rescaled to length 1."""
    if np.array_equal(transform[:3, :3], np.eye(3)):  # to the bit
        return normals
    x, y, z = transform[:3, :3]
    with np.errstate(all="ignore"):
        # The matrix of cofactors: the inverse transpose without its division.
        turned = normals @ np.stack([np.cross(y, z), np.cross(z, x), np.cross(x, y)]).T
        turned *= np.sign(np.dot(x, np.cross(y, z)))
        lengths = np.linalg.norm(turned, axis=1, keepdims=True)
        unit: NDArray[np.float64] = np.where(lengths > 0, turned / lengths, 0.0)
    return unit
