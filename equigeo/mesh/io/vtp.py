"""Reader for VTP, the XML format of VTK for polygons and triangle strips."""

from __future__ import annotations

import binascii
import lzma
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.io.file_mesh import MAX_FILE_BYTES, FileMesh, check_corners
from equigeo.mesh.io.ply import read_ply_attributes, strip_triangles
from equigeo.mesh.io.ply_elements import TYPES, Column, Lists, shown
from equigeo.mesh.io.text import TokenTable

_Arrays = dict[str, NDArray[Any]]  # (rows, components) by name
_STREAM = re.compile(rb"[A-Za-z0-9+/]+={0,2}")  # base64, headers may be padded on their own
_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "vtkZLibDataCompressor": zlib.decompressobj,
    "vtkLZMADataCompressor": lzma.LZMADecompressor,
}
_PREFIX = {"Normals": "n"}  # of the columns of an array, as PLY files name them
_DAMAGE = (
    *(ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError, ValueError),
    *(zlib.error, lzma.LZMAError),
)


def read_vtp(data: bytes) -> FileMesh:
    """Read the polygons, strips and arrays of all pieces of a VTP file in any encoding."""
    try:
        file = _File(data)
        pieces = [_Piece(file, piece) for piece in file.root.findall("PolyData/Piece")]
        return _joined([piece for piece in pieces if len(piece.mesh.vertices)])
    except MeshError:
        raise
    except _DAMAGE as error:
        raise MeshError("is no VTP file with polygons: it is damaged") from error


class _File:
    """Description of a file, and the bytes of its arrays."""

    def __init__(self, data: bytes) -> None:
        # Appended bytes are no XML.
        text, begin, rest = data.partition(b"<AppendedData")
        head, _, rest = rest.partition(b"_")
        self.appended, end, rest = rest.rpartition(b"</AppendedData>")
        text += begin + head + end + rest
        if b"<!DOCTYPE" in text:
            raise MeshError("declares a document type, which VTP files have not")
        self.root = fromstring(text)
        kind, compressor = self.root.get("type", ""), self.root.get("compressor")
        if self.root.tag != "VTKFile" or kind != "PolyData":
            raise MeshError(f"holds {shown(kind)} instead of PolyData; export its surface")
        if self.root.find("PolyData") is None:
            raise ValueError("a file must have a PolyData element")
        if compressor and compressor not in _DECOMPRESSORS:
            raise MeshError(
                f"is compressed by {shown(compressor)}; save it by zlib or uncompressed"
            )
        self.order = {"LittleEndian": "<", "BigEndian": ">"}[
            self.root.get("byte_order", "LittleEndian")
        ]
        self.header = self._dtype(self.root.get("header_type", "UInt32"))
        self.decompressor = _DECOMPRESSORS[compressor] if compressor else None
        self.is_text = self.root.find("AppendedData[@encoding='base64']") is not None
        arrays = self.root.iterfind(".//*[@offset]")
        self.offsets = sorted({int(array.get("offset", "")) for array in arrays})
        self.left = MAX_FILE_BYTES  # that may be unpacked

    def _dtype(self, name: str) -> np.dtype[Any]:
        return np.dtype(self.order + TYPES[name.lower()])

    def read(self, array: Element | None) -> NDArray[Any]:
        """Return the values of an array, (rows, components)."""
        if array is None:
            raise ValueError("an array is missing")
        kind, form = self._dtype(array.get("type", "")), array.get("format", "ascii")
        text = (array.text or "").encode()
        if form == "ascii":
            values = _numbers(text, kind)
        elif form == "binary":
            values = np.frombuffer(self._unpacked(_decoded(text)), kind)
        else:
            start = int(array.get("offset", ""))
            stop = next((x for x in self.offsets if x > start), len(self.appended))
            part = self.appended[max(start, 0) : stop]
            values = np.frombuffer(self._unpacked(_decoded(part) if self.is_text else part), kind)
        return values.reshape(-1, int(array.get("NumberOfComponents") or 1))

    def _unpacked(self, stream: bytes) -> bytes:
        """Return the content of an array without its header, decompressed."""
        size = self.header.itemsize
        if self.decompressor is None:
            length = int(np.frombuffer(stream, self.header, 1)[0])
            if length > len(stream) - size:
                raise ValueError("an array is truncated")
            return stream[size : size + length]
        number, whole, last = np.frombuffer(stream, self.header, 3).tolist()
        lengths = np.frombuffer(stream, self.header, number, 3 * size).tolist() if number else []
        self.left -= number * whole
        if self.left < 0:
            raise MeshError(f"unpacks to more than {MAX_FILE_BYTES} bytes")
        at, parts = (3 + number) * size, []
        for block, length in enumerate(lengths):
            expected = last if last and block == number - 1 else whole
            limit = min(expected, whole) + 1  # 0 would be none
            part = self.decompressor().decompress(stream[at : at + length], limit)
            if len(part) != expected:
                raise ValueError("a block has another length than its header")
            parts.append(part)
            at += length
        return b"".join(parts)

    def lists(self, cells: Element | None) -> Lists:
        """Return the corners of cells."""
        if cells is None or not len(cells):
            return Lists(np.zeros(0, np.int64), np.zeros(0, np.int64))
        values, ends = (
            self.read(cells.find(f"DataArray[@Name='{name}']")).ravel()
            for name in ("connectivity", "offsets")
        )
        if values.dtype.kind == "f" or ends.dtype.kind == "f":
            raise ValueError("indices must be integers")
        ends = ends.astype(np.int64)
        sizes = ends - np.append(0, ends[:-1])
        is_wrong = (sizes < 0) | (sizes > len(values))
        if is_wrong.any() or sizes.sum() != len(values) or (values < 0).any():
            raise ValueError("offsets must ascend to the number of corners, none of them negative")
        return Lists(sizes, values.astype(np.int64))

    def arrays(self, element: Element | None, rows: int, left_out: set[str]) -> _Arrays:
        """Return the numbers of points or cells by name; add names of other arrays to a set."""
        found: _Arrays = {}
        for array in [] if element is None else element:
            name = array.get("Name", "")
            if name in found or array.get("type", "").lower() not in TYPES:  # strings, bits
                left_out.add(name)
                continue
            found[name] = self.read(array)
            if len(found[name]) != rows:
                raise ValueError("an array must have a row per point or cell")
        return found


class _Piece:
    """Polygons of one piece, and triangles of its strips."""

    def __init__(self, file: _File, piece: Element) -> None:
        array = piece.find("Points/DataArray")
        is_empty = array is None and piece.get("NumberOfPoints") == "0"
        points = np.zeros((0, 3)) if is_empty else file.read(array)
        if points.shape[1] != 3:
            raise ValueError("points must have three coordinates")
        polygons, strips = (file.lists(piece.find(name)) for name in ("Polys", "Strips"))
        check_corners(polygons.sizes)
        triangles = strip_triangles(strips)
        sizes = np.append(polygons.sizes, np.full(len(triangles) // 3, 3))
        with np.errstate(all="ignore"):  # a signaling NaN of float32 complains when it is widened
            vertices = points.astype(np.float64)
        # Refuses corners that are points of another piece.
        self.mesh = FileMesh(vertices, np.append(polygons.values, triangles), sizes)
        before = sum(int(piece.get(f"NumberOf{name}") or 0) for name in ("Verts", "Lines"))
        cells = before + len(polygons.sizes) + len(strips.sizes)
        self.left_out: set[str] = set()
        self.points = file.arrays(piece.find("PointData"), len(vertices), self.left_out)
        faces = file.arrays(piece.find("CellData"), cells, self.left_out)
        self.faces = {name: values[before:] for name, values in faces.items()}
        if len(strips.sizes):  # which have more triangles
            self.left_out |= set(faces)
            self.faces = {}


def _joined(pieces: Sequence[_Piece]) -> FileMesh:
    if not pieces:
        none = np.zeros(0, np.int64)
        return FileMesh(np.zeros((0, 3)), none, none)
    meshes = [piece.mesh for piece in pieces]
    shifts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    corners = [mesh.corners + shift for mesh, shift in zip(meshes, shifts[:-1], strict=True)]
    sizes = np.concatenate([mesh.sizes for mesh in meshes])
    left_out = {name for piece in pieces for name in piece.left_out}
    columns = []
    for parts in ([piece.points for piece in pieces], [piece.faces for piece in pieces]):
        widths = [{(name, x.shape[1]) for name, x in part.items()} for part in parts]
        shared = set.intersection(*widths)
        left_out |= {name for name, _ in set.union(*widths) - shared}
        names = [name for name, x in parts[0].items() if (name, x.shape[1]) in shared]
        joined = {n: np.concatenate([part[n] for part in parts]) for n in names}
        columns.append(_columns(joined, left_out))
    vertex, face = columns
    return FileMesh(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate(corners),
        sizes,
        attributes=read_ply_attributes(vertex, face, sizes, dict.fromkeys(sorted(left_out), 1)),
    )


def _columns(arrays: _Arrays, left_out: set[str]) -> dict[str, Column]:
    """Return numbers per row, of vectors x, y and z; add names of arrays to a set that collide."""
    vectors = {name: _PREFIX.get(name, name) for name, x in arrays.items() if x.shape[1] == 3}
    taken = {prefix + axis for prefix in vectors.values() for axis in "xyz"}
    found: dict[str, Column] = {}
    for name, values in arrays.items():
        width = values.shape[1]
        own: dict[str, Column] = {name: values[:, 0] if width == 1 else _rows(values)}
        if name in vectors:
            own = {vectors[name] + axis: x for axis, x in zip("xyz", values.T, strict=True)}
        if found.keys() & own or (name not in vectors and name in taken):
            left_out.add(name)
        else:
            found |= own
    return found


def _rows(values: NDArray[Any]) -> Lists:
    return Lists(np.full(len(values), values.shape[1]), values.ravel())


def _decoded(text: bytes) -> bytes:
    """Decode base64, of a header and its blocks in turn."""
    text = b"".join(text.split())
    streams = _STREAM.findall(text)
    if sum(map(len, streams)) != len(text):
        raise ValueError("base64 must have letters, digits, + and /")
    return b"".join(map(binascii.a2b_base64, streams))


def _numbers(text: bytes, kind: np.dtype[Any]) -> NDArray[Any]:
    table = TokenTable(text, comments=False)
    words = np.arange(len(table.start))
    if kind.kind == "f":
        return table.numbers(words, float)
    values = table.numbers(words, int)
    if (values == np.iinfo(np.int64).min).any():
        raise ValueError("an integer is expected")
    return values
