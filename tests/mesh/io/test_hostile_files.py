"""Files that would take long, or much memory, are refused at once: see ``limits``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from equigeo.mesh import MeshError, load_mesh
from equigeo.mesh.io import limits
from tests.mesh.io.mesh_texts import off_text, ply_header, ply_text, stl_text

TRIANGLE = b"v 0 0 0\nv 1 0 0\nv 0 1 0\n"
MILLIONS = 5_000_000
SECONDS = 2.0  # of processor time: one, on a machine with nothing else to do


def ply_with_comments(count: int) -> bytes:
    return ply_text().replace(b"element", b"comment nothing\n" * count + b"element", 1)


def ply_with_lists(count: int) -> bytes:
    lists = b"property list uchar int a%d\n"
    many = b"".join(lists % k for k in range(count))
    header = b"ply\nformat binary_little_endian 1.0\nelement face 1\n" + many
    return header + b"end_header\n" + bytes(10**5)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "comments.ply": (lambda: ply_with_comments(2_000_000), "no 'end_header' in its first 1048576"),
    "false_end.ply": (
        lambda: ply_text().replace(
            b"element", b"comment end_headers\n" * 2_000_000 + b"element", 1
        ),
        "no 'end_header' in its first 1048576",
    ),
    "blank.ply": (
        lambda: b"ply\n" + b"\n" * 10**6 + b"end_header\n",
        "has no faces|cannot be read",
    ),
    "blank_long.ply": (lambda: b"ply\n" + b"\n" * 10**7 + b"end_header\n", "no 'end_header'"),
    "lists.ply": (lambda: ply_with_lists(20_000), "20001 elements and properties, more than 256"),
    "corners.ply": (
        lambda: (
            ply_header("ascii", 3, 1) + b"0 0 0\n1 0 0\n0 1 0\n%d " % MILLIONS + b"1 " * MILLIONS
        ),
        "a line of 10000009 bytes, more than 1048576",
    ),
    "promise.ply": (lambda: ply_header("ascii", 10**17, 10**17) + b"0 0 0\n", "announces 1000000"),
    "list_length.ply": (
        lambda: (
            ply_header("binary_little_endian", 0, 3).replace(b"uchar", b"uint") + b"\xff" * 10**6
        ),
        "cannot be read|truncated|announces",
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
        lambda: b"OFF 3 1 0\n0 0 0\n1 0 0\n0 1 0\n%d" % MILLIONS + b" 1" * MILLIONS,
        "face 0 has 5000000 corners, more than 65536",
    ),
    "promise.off": (lambda: b"OFF %d 1 0\n0 0 0\n" % 10**17, "announces 100000000000000000"),
    "words.off": (lambda: b"OFF 1000 1000 0\n" + b"a " * MILLIONS, "announces|expected"),
    "solids.stl": (lambda: b"solid\nendsolid\n" * 10**6, "1000000 solids, more than 8192"),
    "promise.stl": (lambda: bytes(80) + b"\xff" * 4 + bytes(500), "announces 4294967295 triangles"),
    "noise.stl": (lambda: b"solid" + np.random.default_rng(0).bytes(10**6), "announces|is not|can"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_at_once(name: str, tmp_path: Path) -> None:
    make, message = HOSTILE[name]
    path = tmp_path / name
    path.write_bytes(make())
    before = time.process_time()
    with pytest.raises(MeshError, match=message) as error:
        load_mesh(path)
    assert time.process_time() - before < SECONDS
    assert str(error.value).startswith(f"{path}: ")
    assert len(str(error.value)) - len(str(path)) < 300


def test_a_large_file_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "large.obj"
    with path.open("wb") as file:
        os.truncate(file.fileno(), limits.MAX_FILE_BYTES + 1)
    with pytest.raises(MeshError, match="has 2147483649 bytes, more than 2147483648"):
        load_mesh(path)


def test_comments_and_long_faces_within_the_limits_are_read(tmp_path: Path) -> None:
    path = tmp_path / "many.ply"
    path.write_bytes(ply_with_comments(10_000))
    assert load_mesh(path)[0].num_faces == 6
    angle = np.linspace(0, 2 * np.pi, 5000, endpoint=False)
    disc = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1)
    for name, text in (("disc.off", off_text), ("disc.ply", ply_text)):
        data = text(disc, np.arange(5000)[None])
        (tmp_path / name).write_bytes(data.replace(b"list uchar", b"list ushort"))
        assert load_mesh(tmp_path / name)[0].num_faces == 4998


def test_what_follows_the_announced_lines_of_a_ply_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "more.ply"
    path.write_bytes(ply_text() + b"\n" * 10 + b"what else\n" * 10)
    assert load_mesh(path, strict=True)[0].num_faces == 6


def test_words_that_are_no_numbers_leave_the_others_as_they_are(tmp_path: Path) -> None:
    odd = ["1_0", "0x1", "1e", "--1", "1,5", "٣", "1" * 65, "infinite", "1e5e"]
    even = ["+1.5", "-.5", "5.", "1e5", "1E-3", "007", "nan", "-inf", "Infinity"]
    path = tmp_path / "words.obj"
    rows = [f"v {a} {b} 1" for a, b in zip(odd, even, strict=True)]
    path.write_text("\n".join([*rows, "v 0 0 0", "v 1 0 0", "v 0 1 0", "f -1 -2 -3"]))
    mesh, report = load_mesh(path)
    assert mesh.num_faces == 1
    assert report.warnings[0].startswith("9 vertices are not three finite numbers, first in line 1")


def test_a_text_solid_may_be_one_of_several(tmp_path: Path) -> None:
    path = tmp_path / "solids.stl"
    path.write_bytes(b"solid\nendsolid\n" * 1000 + stl_text())
    assert load_mesh(path)[0].num_faces == 6
