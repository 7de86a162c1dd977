"""Elements of a PLY file: columns of numbers and of lists, by the types in its header."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.connectivity import concatenate_ranges
from equigeo.mesh.io.file_mesh import MAX_PLY_HEADER, MAX_PLY_PROPERTIES, check_counts
from equigeo.mesh.io.text import TokenTable, normalize_text

_Ints = NDArray[np.int64]
_END = re.compile(rb"^end_header[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_ASCII = re.compile(rb"[\r\n]format[ \t]+ascii")
_ENCODINGS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
TYPES = {"char": "i1", "short": "i2", "int": "i4", "float": "f4", "double": "f8"}
TYPES |= {"uchar": "u1", "ushort": "u2", "uint": "u4"}
TYPES |= {f"{kind}{8 * n}": f"{kind[0]}{n}" for kind in ("int", "uint") for n in (1, 2, 4, 8)}
TYPES |= {f"float{8 * n}": f"f{n}" for n in (2, 4, 8)}
_SHOWN = 32  # characters of a word in a message


@dataclass(frozen=True, eq=False)
class Lists:
    """A list of numbers per row."""

    sizes: _Ints  # (rows,)
    values: NDArray[np.generic]  # (sum of sizes,)


Column = NDArray[np.generic] | Lists
Elements = dict[str, dict[str, Column]]


@dataclass(frozen=True)
class _Property:
    name: str
    kind: str  # as written in the header
    length: str | None  # type of the length of a list


@dataclass(frozen=True)
class _Element:
    name: str
    rows: int
    properties: list[_Property]

    def error(self, row: int, problem: str) -> MeshError:
        """Return an error for a row that cannot be read."""
        return MeshError(
            f"is truncated or damaged: row {row} of {shown(self.name)} {problem}; export it again"
        )


def shown(name: str) -> str:
    """Return a name of the file for a message."""
    return repr(name[:_SHOWN])


def read_elements(data: bytes) -> tuple[Elements, dict[str, int], tuple[str, ...]]:
    """Read all columns by element and name; return also numbers of rows, and warnings."""
    if data[:3].lower() != b"ply" or _ASCII.search(data, 0, MAX_PLY_HEADER):
        data = normalize_text(data, binary_is_text=True)
    order, elements, body = _split(data)
    counts = {element.name: element.rows for element in elements}
    # No vertex takes less than 3 bytes and no face less than 1; text needs more.
    vertices, faces = counts.get("vertex", 0), counts.get("face", 0)
    check_counts(vertices, faces, len(body), "bytes after its header")
    if order:
        return _binary(body, elements, order), counts, ()
    warnings: list[str] = []
    return _text(body, elements, warnings), counts, tuple(warnings)


def _split(data: bytes) -> tuple[str, list[_Element], bytes]:
    """Return the byte order, empty for text, the elements and the body."""
    end = _END.search(data, 0, MAX_PLY_HEADER)
    if not re.match(rb"(?i:ply)\s", data):
        raise MeshError("is not a PLY file: no 'ply' at its start; check the extension")
    if end is None:
        raise MeshError(f"has no 'end_header' in its first {MAX_PLY_HEADER} bytes; export it again")
    lines = [line.decode("latin-1").split() for line in data[: end.start()].splitlines()]
    encoding = [words[1].lower() for words in lines if words[:1] == ["format"] and words[1:]]
    if not encoding or encoding[0] not in _ENCODINGS:
        given = shown(encoding[0]) if encoding else "none"
        raise MeshError(f"must have the format {', '.join(_ENCODINGS)}, got {given}")
    shape = [words for words in lines if words[:1] in (["element"], ["property"])]
    if len(shape) > MAX_PLY_PROPERTIES:
        raise MeshError(
            f"has {len(shape)} elements and properties, more than {MAX_PLY_PROPERTIES}; "
            "export positions and faces alone"
        )
    return _ENCODINGS[encoding[0]], _declared(shape), data[end.end() :]


def _declared(
    shape: list[list[str]],  # words of the lines of elements and properties
) -> list[_Element]:
    elements: list[_Element] = []
    for words in shape:
        if words[0] == "property":
            if not elements:
                raise MeshError("has a property before its first element; export it again")
            elements[-1].properties.append(_property(words))
        elif len(words) == 3 and re.fullmatch(r"\d{1,18}", words[2], re.ASCII):
            elements.append(_Element(words[1], int(words[2]), []))
        else:
            raise MeshError("has an element in its header without a count; export it again")
    for names in ([e.name for e in elements], *([p.name for p in e.properties] for e in elements)):
        if len(set(names)) < len(names):
            twice = max(names, key=names.count)
            raise MeshError(f"declares {shown(twice)} twice in its header; export it again")
    for element in elements:
        if element.rows and not element.properties:
            raise MeshError(f"declares the element {shown(element.name)} without properties")
    return elements


def _property(words: list[str]) -> _Property:
    types, length = words[1:-1], None
    if types[:1] == ["list"] and len(types) == 3:
        length = types[1]
        if TYPES.get(length, "i")[0] == "f":
            raise MeshError(f"declares the list {shown(words[-1])} with a length of type {length}")
        types = types[2:] if length in TYPES else []
    if len(types) != 1 or types[0] not in TYPES:
        text = shown(" ".join(words))
        raise MeshError(f"declares {text}, which is no property of PLY; export it again")
    return _Property(words[-1], types[0], length)


def _text(body: bytes, elements: list[_Element], warnings: list[str]) -> Elements:
    """Read text of one line per row."""
    table, line, found = TokenTable(body, comments=False), 0, Elements()
    for element in elements:
        available = max(table.num_lines - line, 0)
        if element.rows > available:
            raise MeshError(
                f"announces {element.rows} rows of {shown(element.name)} but holds {available}: "
                "it is truncated or its header is wrong; export it again"
            )
        ptr = table.line_ptr[line : line + element.rows + 1]
        found[element.name] = _Lines(table, element, ptr).columns(warnings)
        line += element.rows
    return found


class _Lines:
    """Rows of an element in a text."""

    def __init__(self, table: TokenTable, element: _Element, ptr: _Ints) -> None:
        self.table, self.element = table, element
        self.first, self.counts = ptr[:-1], np.diff(ptr)
        self.at = np.zeros(element.rows, np.int64)  # words read of each row
        self.numbers = table.numbers(np.arange(ptr[0], ptr[-1]), float)

    def columns(self, warnings: list[str]) -> dict[str, Column]:
        found: dict[str, Column] = {}
        for item in self.element.properties:
            sizes = np.ones_like(self.at)
            if item.length:
                sizes = self.take(sizes, item.length).astype(np.int64)
                if sizes.min(initial=0) < 0:
                    row = int(sizes.argmin())
                    raise self.element.error(row, f"has a list of {sizes[row]} numbers")
            values = self.take(sizes, item.kind)
            found[item.name] = Lists(sizes, values) if item.length else values
        further = int((self.counts > self.at).sum())
        if further:
            name = shown(self.element.name)
            warnings.append(f"{further} rows of {name} have further numbers; left out")
        return found

    def take(self, sizes: _Ints, kind: str) -> NDArray[np.generic]:
        """Read the next numbers of each row."""
        bad = sizes > self.counts - self.at
        if bad.any():
            raise self.element.error(int(bad.argmax()), "has fewer numbers than it announces")
        words, dtype = concatenate_ranges(self.first + self.at, sizes), np.dtype(TYPES[kind])
        self.at += sizes
        values = self.numbers[words - self.first[0]] if len(words) else np.zeros(0)
        if dtype.kind == "f":
            bad = np.isnan(values)
            if bad.any():
                bad &= ~self.table.is_nan(words)
        elif dtype.itemsize == 8:
            values = self.table.numbers(words, int)  # which float64 may not hold
            bad = values < (0 if dtype.kind == "u" else 1 + np.iinfo(np.int64).min)
        else:
            limits = np.iinfo(dtype)
            bad = ~((values == np.rint(values)) & (values >= limits.min) & (values <= limits.max))
        if bad.any():
            word = words[bad.argmax()]
            text = self.table.data[self.table.start[word] : self.table.stop[word]].tobytes()
            row = int(np.searchsorted(self.first, word, side="right")) - 1
            given = text[:_SHOWN].decode(errors="replace")
            raise self.element.error(row, f"has {given!r} for a number of type {kind}")
        with np.errstate(all="ignore"):  # numbers beyond float32 become infinite
            return values.astype(dtype)


def _binary(body: bytes, elements: list[_Element], order: str) -> Elements:
    """Read packed rows."""
    at, found = 0, Elements()
    for element in elements:
        found[element.name], at = _rows(body, at, element, order)
    rest = len(body) - at
    if body[at:] not in (b"", b"\n", b"\r\n"):  # which some programs write behind binary data
        raise MeshError(
            f"has {rest} bytes after its last element: its header is wrong or it is damaged; "
            "export it again"
        )
    return found


def _rows(body: bytes, at: int, element: _Element, order: str) -> tuple[dict[str, Column], int]:
    """Read the rows of an element; return also the place behind them."""
    sizes, end = _first_sizes(body, at, element, order)
    fields: list[tuple[str, str] | tuple[str, str, tuple[int]]] = []
    for item in element.properties:
        if item.length:
            fields.append((f"length {item.name}", order + TYPES[item.length]))
            fields.append((item.name, order + TYPES[item.kind], (sizes[item.name],)))
        else:
            fields.append((item.name, order + TYPES[item.kind]))
    stop = at + (end - at) * element.rows
    if stop <= len(body):
        table: NDArray[np.void] = np.ndarray(element.rows, np.dtype(fields), body, at)
        if all((table[f"length {name}"] == size).all() for name, size in sizes.items()):
            return {
                item.name: Lists(np.full(element.rows, sizes[item.name]), table[item.name].ravel())
                if item.length
                else table[item.name]
                for item in element.properties
            }, stop
    elif not sizes:
        raise element.error((len(body) - at) // (end - at), "is not there")
    return _ragged_rows(body, at, element, order)


def _first_sizes(body: bytes, at: int, element: _Element, order: str) -> tuple[dict[str, int], int]:
    """Return the lengths of the lists in the first row, and its end."""
    sizes = {}
    for item in element.properties:
        width = np.dtype(TYPES[item.kind]).itemsize
        if item.length:
            kind = np.dtype(order + TYPES[item.length])
            text = body[at : at + kind.itemsize] if element.rows else b""
            count = int(np.frombuffer(text, kind)[0]) if len(text) == kind.itemsize else 0
            at += kind.itemsize
            width *= count
            if element.rows and (count < 0 or at + width > len(body)):
                raise element.error(0, f"has a list of {count} numbers, beyond the end")
            sizes[item.name] = count
        at += width
    return sizes, at


def _ragged_rows(
    body: bytes, at: int, element: _Element, order: str
) -> tuple[dict[str, Column], int]:
    """Read rows with lists of different lengths, in one pass over their lengths."""
    begin, lengths, at = _scan(body, at, element, order)
    data, place = np.frombuffer(body, np.uint8), begin
    found: dict[str, Column] = {}
    for item in element.properties:
        kind = np.dtype(order + TYPES[item.kind])
        if not item.length:
            number = data[place[:, None] + np.arange(kind.itemsize)]
            found[item.name] = number.view(kind)[:, 0]
            place = place + kind.itemsize
            continue
        sizes = lengths[item.name]
        start = place + np.dtype(TYPES[item.length]).itemsize
        place = start + sizes * kind.itemsize
        # Bytes of all lists, by their first and last ones; lengths part one list from the next.
        edge = np.zeros(at - begin[0] + 1, np.int8)
        edge[(start - begin[0])[sizes > 0]] = 1
        edge[(place - begin[0])[sizes > 0]] = -1
        inside = np.cumsum(edge[:-1], dtype=np.int8).view(bool)
        found[item.name] = Lists(sizes, data[begin[0] : at][inside].view(kind))
    return found, at


def _scan(
    body: bytes, at: int, element: _Element, order: str
) -> tuple[_Ints, dict[str, _Ints], int]:
    """Return where each row begins, the lengths of its lists by name, and the end of the last."""
    steps, skip = [], 0  # bytes before a length, type of a length, bytes of an item
    for item in element.properties:
        width = np.dtype(TYPES[item.kind]).itemsize
        if item.length:
            steps.append((skip, np.dtype(TYPES[item.length]), width))
        skip = 0 if item.length else skip + width
    kinds = [(before, kind.itemsize, kind.kind == "i", width) for before, kind, width in steps]
    byteorder: Literal["little", "big"] = "little" if order == "<" else "big"
    begin, lengths = [], []
    for row in range(element.rows):
        begin.append(at)
        for before, size, signed, width in kinds:
            at += before
            length = int.from_bytes(body[at : at + size], byteorder, signed=signed)
            lengths.append(length)
            at += size + length * width
            if length < 0 or at > len(body):
                raise element.error(row, f"has a list of {length} numbers, beyond the end")
        at += skip
    if at > len(body):
        raise element.error(element.rows - 1, "is not complete")
    names = [item.name for item in element.properties if item.length]
    columns = np.array(lengths, np.int64).reshape(-1, len(names)).T
    return np.array(begin, np.int64), dict(zip(names, columns, strict=True)), at
