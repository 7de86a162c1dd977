"""Files and archives that are damaged, hostile or none at all."""

import copy
import gzip
import io
import json
import lzma
import os
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from PIL import Image

from equigeo.datasets import digit_canvas, load_mesh_folder, read_image
from equigeo.datasets.digits.readers import IMAGE_FORMATS
from equigeo.mesh import MeshError, PrimalDualGraph, load_mesh
from tests.fuzz.case import Case
from tests.mesh.io.files import (
    ATTRIBUTED,
    HOSTILE,
    PLY_ENCODINGS,
    PLY_TYPES,
    SPELLINGS,
    VTK_FORMS,
    instanced,
    obj_text,
    off_text,
    pack,
    ply_binary,
    ply_file,
    ply_text,
    scene,
    star,
    threemf,
    threemf_part,
    vtp,
)

LARGE = 10**4  # bytes that are not multiplied again
ROUNDS = 400  # of all mutations, for a seed
NUMBERS = [b"-1", b"0", b"nan", b"1e999", b"-inf", b"1_0", b"0x7f", b"9" * 19, b"9" * 400]
NUMBERS += [str(2**k).encode() for k in (31, 32, 40, 62, 63, 64)] + [b"1" + b"0" * 18]
VALUES: list[Any] = [None, True, -1, 0, 2**31, 2**62, 10**18, 10**40, 0.5, 1e999, "", "a", [], {}]
VALUES += [[0] * 100, [[[[]]]], [None], {"uri": "/dev/zero"}, "KHR_draco_mesh_compression"]
VALUES += [{"EXT_mesh_gpu_instancing": {"attributes": {"SCALE": 0}}}, ["ACME_unknown"], [[]] * 3]


def cases(seed: int) -> Iterator[Case]:
    """All that is known to be hostile, then mutations; the same for the same seed."""
    rng = np.random.default_rng([seed, 17])
    for name, (make, _) in HOSTILE.items():
        yield Case(name, partial(read, name, make), (MeshError,), must_refuse=True)
    for name in BAD_MEMBERS:
        for suffix in (".tar.gz", ".tar.xz", ".zip"):
            if (name, suffix) not in NOT_THERE:
                make = partial(archive, suffix, BAD_MEMBERS[name])
                call = partial(unpack, suffix, make)
                yield Case(f"{name} in {suffix}", call, (ValueError,), must_refuse=True)
    for _ in range(ROUNDS):
        yield mesh_case(rng)
        yield polygon_case(rng)
        yield layout_case(rng)
        yield description_case(rng)
        yield part_case(rng)
        yield array_case(rng)
        yield archive_case(rng)
        yield image_case(rng)


def mesh_case(rng: np.random.Generator) -> Case:
    """A mesh file, mutated up to four times, sometimes under the name of another format."""
    spellings = SPELLINGS | ATTRIBUTED
    names = sorted(spellings)
    name = names[rng.integers(len(names))]
    data, label = spellings[name](), name
    for _ in range(rng.integers(1, 5)):
        kinds = sorted(MUTATIONS)
        kind = kinds[rng.integers(len(kinds))]
        data, label = MUTATIONS[kind](data, rng), f"{label}, {kind}"
    if rng.random() < 0.1:
        name = names[rng.integers(len(names))]
        label = f"{label}, as {name}"
    return Case(label, partial(read, name, lambda: data), (MeshError,))


def polygon_case(rng: np.random.Generator) -> Case:
    """Polygons with crossings, flat corners, repeated points, or of extreme sizes and places."""
    kinds = sorted(OUTLINES)
    kind, number = kinds[rng.integers(len(kinds))], int(rng.integers(1, 5))
    outlines = [OUTLINES[kind](rng, int(rng.integers(3, 40))) for _ in range(number)]
    scale, offset = 10.0 ** rng.integers(-200, 150), 10.0 ** rng.integers(-9, 9)
    plane = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    with np.errstate(all="ignore"):  # not all are finite
        vertices = scale * (np.concatenate(outlines) @ plane + offset * rng.normal(size=3))
    ends = np.cumsum([len(outline) for outline in outlines])
    faces = [part.tolist() for part in np.split(np.arange(len(vertices)), ends[:-1])]
    writers: dict[str, Callable[..., bytes]] = {
        "polygons.obj": obj_text, "polygons.off": off_text,
        "text.ply": ply_text, "polygons.ply": ply_binary, "text.vtp": vtp,
    }  # fmt: skip
    name = sorted(writers)[rng.integers(len(writers))]
    data = writers[name](vertices, faces)
    label = f"{kind}, {number} polygons, scale {scale:g}, offset {offset:g}, as {name}"
    return Case(label, partial(read, name, lambda: data), (MeshError,))


def flat(points: np.ndarray) -> np.ndarray:
    return np.insert(points, 2, 0, axis=1)


def halved(rng: np.random.Generator, size: int) -> np.ndarray:
    """A star with a corner in the middle of each side, and another one there at times."""
    points = star(rng, size)
    middle = (points + np.roll(points, -1, axis=0)) / 2
    copies = rng.integers(1, 3, 2 * size)
    return flat(np.repeat(np.stack([points, middle], axis=1).reshape(-1, 2), copies, axis=0))


OUTLINES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "star": lambda rng, size: flat(star(rng, size)),
    "flat corners": halved,
    "crossing": lambda rng, size: flat(rng.normal(size=(size, 2))),
    "lattice": lambda rng, size: flat(rng.integers(0, 3, (size, 2)).astype(float)),
    "not planar": lambda rng, size: rng.normal(size=(size, 3)),
    "line": lambda rng, size: rng.normal(size=(size, 1)) * np.eye(1, 3),
    "unknown": lambda rng, size: rng.choice([0.0, 1, 2, np.nan, np.inf], (size, 3)),
}


def layout_case(rng: np.random.Generator) -> Case:
    """A PLY file of random elements and lists, at times mutated."""
    elements: dict[str, dict[str, list[Any]]] = {}
    kinds = sorted(PLY_TYPES)
    names = ["vertex", "face", "edge", "tristrips"]
    for name in [names[k] for k in rng.permutation(4)[: rng.integers(2, 5)]]:
        rows = int(rng.integers(0, 9))
        columns: dict[str, list[Any]] = {}
        for number in range(rng.integers(1, 4)):
            kind, length = (kinds[k] for k in rng.integers(len(kinds), size=2))
            sizes = rng.integers(0, 5, rows)
            lists = [rng.integers(0, 9, size).tolist() for size in sizes]
            columns[f"list {length} {kind} a{number}"] = lists
            columns[f"{kind} b{number}"] = sizes.tolist()
        if name == "vertex":
            columns |= {f"float {axis}": rng.normal(size=rows).tolist() for axis in "xyz"}
        order = rng.permutation(sorted(columns)).tolist()
        elements[name] = {column: columns[column] for column in order}
    encoding = sorted(PLY_ENCODINGS)[rng.integers(len(PLY_ENCODINGS))]
    data, label = ply_file(encoding, elements), f"layout {' '.join(elements)} {encoding}"
    if rng.random() < 0.5:
        kind = sorted(MUTATIONS)[rng.integers(len(MUTATIONS))]
        data, label = MUTATIONS[kind](data, rng), f"{label}, {kind}"
    return Case(label, partial(read, "layout.ply", lambda: data), (MeshError,))


def description_case(rng: np.random.Generator) -> Case:
    """GLB, or glTF with a file beside it, and one to three values of its description exchanged."""
    described, binary = scene() if rng.random() < 0.5 else instanced()
    described = copy.deepcopy(described)
    if rng.random() < 0.5:
        described["extensionsRequired"] = ["EXT_mesh_gpu_instancing"]
        described["meshes"][0]["weights"] = [0.5]
        described["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": 0}]
    beside = rng.random() < 0.5
    if beside:
        described["buffers"][0]["uri"] = "scene.bin"
        if rng.random() < 0.5:
            binary = MUTATIONS["flip"](binary, rng)
    changed = []
    for _ in range(rng.integers(1, 4)):
        holder, key = places(described)[rng.integers(len(places(described)))]
        holder[key] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
        changed.append(f"{key} = {str(holder[key])[:20]}")
    label = f"description, {', '.join(changed)}, {'beside' if beside else 'in one file'}"
    if beside:
        call = partial(read, "scene.gltf", lambda: json.dumps(described).encode(), binary)
    else:
        call = partial(read, "scene.glb", lambda: pack(described, binary))
    return Case(label, call, (MeshError,))


def part_case(rng: np.random.Generator) -> Case:
    """A 3MF file of one or two parts, one of them with mutated text."""
    kind = sorted(MUTATIONS)[rng.integers(len(MUTATIONS))]
    parts = [threemf_part()] * int(rng.integers(1, 3))
    at = int(rng.integers(len(parts)))
    parts[at] = MUTATIONS[kind](parts[at].encode(), rng).decode("latin-1")
    label = f"part {at} of {len(parts)}, {kind}"
    return Case(label, partial(read, "parts.3mf", lambda: threemf(*parts)), (MeshError,))


def array_case(rng: np.random.Generator) -> Case:
    """A VTP file in any encoding, and one to three of its attributes or words exchanged."""
    form, pieces = VTK_FORMS[rng.integers(4)], int(rng.integers(1, 3))
    compress = zlib.compress if form != "ascii" and rng.random() < 0.5 else None
    arrays = {"points": {"flow": np.ones((5, 3))}, "cells": {"label": np.arange(6)}}
    data = vtp(form=form, pieces=pieces, compress=compress, header="<u8", **arrays)
    label = f"array {form}, {pieces} pieces"
    for _ in range(rng.integers(1, 4)):
        words = list(re.finditer(rb'(?<=")[^"<>]+(?=")|(?<=[>\s])[^\s<>]+(?=[<\s])', data))
        word = words[rng.integers(len(words))]
        others = [*NUMBERS, b"3", b"UInt8", b"Float64", b"offsets"]
        new = others[rng.integers(len(others))]
        if rng.random() < 0.3:
            new = MUTATIONS["flip"](word[0], rng)
        data = data[: word.start()] + new + data[word.end() :]
        label = f"{label}, {new[:20]!r}"
    return Case(label, partial(read, "arrays.vtp", lambda: data), (MeshError,))


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every entry of nested lists and dictionaries, as holder and key."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    found = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], (dict, list)):
            found += places(value[key])
    return found


def archive_case(rng: np.random.Generator) -> Case:
    """A sound archive, or a strange one, mutated by bytes."""
    suffix = (".tar.gz", ".tar.xz", ".zip")[rng.integers(3)]
    data = archive(suffix, {})
    kind = ("flip", "cut", "noise", "drop", "repeat")[rng.integers(5)]
    data = MUTATIONS[kind](data, rng)
    return Case(f"archive {suffix}, {kind}", partial(unpack, suffix, lambda: data), (ValueError,))


def image_case(rng: np.random.Generator) -> Case:
    """An image of one format, mutated by bytes up to three times."""
    suffixes = sorted(IMAGE_FORMATS)
    suffix = suffixes[rng.integers(len(suffixes))]
    target = io.BytesIO()
    grey = rng.integers(256, size=(12, 9), dtype=np.uint8)
    Image.fromarray(grey).save(target, format=IMAGE_FORMATS[suffix])
    data, label = target.getvalue(), f"image {suffix}"
    for _ in range(rng.integers(1, 4)):
        kind = ("flip", "cut", "noise", "drop", "repeat")[rng.integers(5)]
        data, label = MUTATIONS[kind](data, rng), f"{label}, {kind}"
    return Case(label, partial(see, suffix, data), (ValueError,))


def see(suffix: str, data: bytes) -> None:
    """Read an image and put it on the canvas of a network."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"image{suffix}")
        path.write_bytes(data)
        canvas, _ = digit_canvas(read_image(path))
    if canvas.shape != (40, 40):
        raise AssertionError(f"a canvas of {tuple(canvas.shape)}")


def read(name: str, make: Callable[[], bytes], beside: bytes = b"") -> None:
    """Load a mesh file; what comes of it must be fit for a network."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        Path(folder, "scene.bin").write_bytes(beside)
        path.write_bytes(make())
        mesh, report = load_mesh(path)
        with suppress(MeshError):
            if not load_mesh(path, strict=True)[1].is_clean:
                raise AssertionError("strict loading repaired something")
    graph = PrimalDualGraph.from_mesh(mesh)
    faces = report.file_triangles - report.counts.removed_faces
    if not (0 < mesh.num_faces == len(report.kept_faces) == graph.num_primal == faces):
        raise AssertionError(f"{mesh.num_faces} faces, {len(report.kept_faces)} are accounted for")
    found = report.attributes
    places = ((found.corners, mesh.faces.shape), (found.vertices, (mesh.num_vertices,)),
              (found.faces, (mesh.num_faces,)))  # fmt: skip
    for attributes, shape in places:
        if not all(values.shape[: len(shape)] == shape for values in attributes.values()):
            raise AssertionError("attributes are not of the corners, vertices or faces of the mesh")
    if len(report.warnings) >= 20 or any(len(text) >= 400 for text in report.warnings):
        raise AssertionError("warnings are many or long")
    if not bool(graph.x_primal.isfinite().all() and graph.x_dual.isfinite().all()):
        raise AssertionError("features are not finite")


def unpack(suffix: str, make: Callable[[], bytes]) -> None:
    """Load a collection of meshes from an archive; no file may lie outside the cache."""
    with tempfile.TemporaryDirectory() as folder:
        path, cache = Path(folder, f"shapes{suffix}"), Path(folder, "cache")
        path.write_bytes(make())
        with mock.patch.dict(os.environ, EQUIGEO_CACHE=str(cache)):
            try:
                load_mesh_folder(path)
            finally:
                strange = [p for p in Path(folder).iterdir() if p not in (path, cache)]
                links = [p for p in cache.rglob("*") if p.is_symlink()]
                partial_ones = [*cache.rglob(".partial-*"), *cache.rglob("*.tmp")]
                if strange or links or partial_ones:
                    raise AssertionError(f"left behind: {[*strange, *links, *partial_ones][:3]}")


def archive(suffix: str, more: dict[str, Any]) -> bytes:
    """An archive of two classes in the layout of MeshCNN, with further members."""
    sound = {f"data/{c}/{p}/1.off": off_text() for c in "ab" for p in ("train", "test")}
    target = io.BytesIO()
    if suffix == ".zip":
        with zipfile.ZipFile(target, "w") as file:
            for name, data in [*sound.items(), *more.items()]:
                info = zipfile.ZipInfo(name)  # of one time: the same bytes for the same seed
                if isinstance(data, bytes):
                    file.writestr(info, data, zipfile.ZIP_DEFLATED)
                else:  # a symbolic link
                    info.external_attr = 0o120777 << 16
                    file.writestr(info, data["linkname"])
        return target.getvalue()
    with tarfile.open(fileobj=target, mode="w") as file:
        for name, data in [*sound.items(), *more.items()]:
            info = tarfile.TarInfo(name)
            if isinstance(data, bytes):
                info.size = len(data)
                file.addfile(info, io.BytesIO(data))
            else:
                for key, value in data.items():
                    setattr(info, key, value)
                file.addfile(info)
    compress = lzma.compress if suffix.endswith("xz") else partial(gzip.compress, mtime=0)
    return compress(target.getvalue())


LINK = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
BAD_MEMBERS: dict[str, dict[str, Any]] = {
    "a path upwards": {"../outside.off": off_text()},
    "a deep path upwards": {"data/a/../../../outside.off": off_text()},
    "an absolute path": {"/tmp/outside.off": off_text()},
    "a symbolic link": {"data/a/train/2.off": LINK},
    "a hard link": {"data/a/train/2.off": {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}},
    "a device": {"data/a/train/2.off": {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5}},
    "a pipe": {"data/a/train/2.off": {"type": tarfile.FIFOTYPE}},
    "a backslash": {"data\\a\\train\\2.off": off_text()},
    "a broken mesh": {"data/a/train/2.off": b"OFF 3 1 0\n"},
    "a promise": {"data/a/train/2.off": b"OFF 1000000000000000000 1 0\n0 0 0\n"},
    "a class without meshes": {"data/c/train/readme.txt": b"nothing"},
}
# A zip file knows links alone.
NOT_THERE = {(name, ".zip") for name in ("a hard link", "a device", "a pipe", "a backslash")}


def flip(data: bytes, rng: np.random.Generator) -> bytes:
    """Change one to eight bytes."""
    changed = np.frombuffer(data, np.uint8).copy()
    if len(changed):
        at = rng.integers(len(changed), size=rng.integers(1, 9))
        changed[at] = rng.integers(256, size=len(at))
    return changed.tobytes()


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: rng.integers(len(data) + 1)]


def drop(data: bytes, rng: np.random.Generator) -> bytes:
    a, b = sorted(rng.integers(len(data) + 1, size=2))
    return data[:a] + data[b:]


def repeat(data: bytes, rng: np.random.Generator) -> bytes:
    if len(data) > LARGE:
        return data
    a, b = sorted(rng.integers(len(data) + 1, size=2))
    return data[:b] + data[a:b] * int(rng.integers(1, 100)) + data[b:]


def noise(data: bytes, rng: np.random.Generator) -> bytes:
    a = rng.integers(len(data) + 1)
    return data[:a] + rng.bytes(rng.integers(1, 2000)) + data[a:]


def number(data: bytes, rng: np.random.Generator) -> bytes:
    """Put a strange number in the place of one of the text."""
    found = [*re.finditer(rb"(?<![\w.])-?\d+(?:\.\d+)?", data)]
    if not found:
        return data
    match = found[rng.integers(len(found))]
    return data[: match.start()] + NUMBERS[rng.integers(len(NUMBERS))] + data[match.end() :]


def lines(data: bytes, rng: np.random.Generator) -> bytes:
    """Shuffle, lengthen or empty lines of the text."""
    rows = data.split(b"\n")
    if len(data) > LARGE:
        return data
    at = int(rng.integers(len(rows)))
    change = int(rng.integers(4))
    if change == 0:
        rows[at : at + 1] = []
    elif change == 1:
        rows[at] = rows[at] * 1000
    elif change == 2:
        rows[at : at + 1] = [rows[at]] * 1000
    else:
        rng.shuffle(rows)
    return b"\n".join(rows)


def end(data: bytes, rng: np.random.Generator) -> bytes:
    """Other ends of lines, and other encodings."""
    choices = (
        lambda: data.replace(b"\n", b"\r"),
        lambda: data.replace(b"\n", b"\r\n"),
        lambda: data.replace(b"\n", b" "),
        lambda: data.replace(b" ", b"\t\v\f"),
        lambda: data.decode("latin-1").encode("utf-16"),
        lambda: b"\xef\xbb\xbf" + data,
        lambda: b"\0" + data,
    )
    return choices[rng.integers(len(choices))]()


MUTATIONS: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "cut": cut,
    "drop": drop,
    "end": end,
    "flip": flip,
    "lines": lines,
    "noise": noise,
    "number": number,
    "repeat": repeat,
}
