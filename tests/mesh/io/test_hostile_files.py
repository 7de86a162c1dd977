"""Files that would take long, or much memory, are refused at once: see ``limits``."""

import os
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from equigeo.mesh import MeshError, load_mesh
from equigeo.mesh.io import file_mesh as limits
from tests.mesh.io.files import HOSTILE, SPELLINGS, off_text, ply_text, ply_with_comments, stl_text
from tests.wrong_inputs import refused

SECONDS = 12.0  # of processor time: 1.2 at most


@cache
def load_once() -> None:
    """Import what readers import when they are called first."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in SPELLINGS.items():
            path = Path(folder, name)
            path.write_bytes(text())
            load_mesh(path)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_at_once(name: str, tmp_path: Path) -> None:
    make, message = HOSTILE[name]
    path = tmp_path / name
    path.write_bytes(make())
    load_once()
    before = time.process_time()
    text = refused(message, load_mesh, path, error=MeshError)
    assert time.process_time() - before < SECONDS
    assert text.startswith(f"{path}: ")
    assert len(text) - len(str(path)) < 300


def test_a_large_file_is_not_even_read_and_missing_vertices_are_told(tmp_path: Path) -> None:
    path = tmp_path / "large.obj"
    with path.open("wb") as file:
        os.truncate(file.fileno(), limits.MAX_FILE_BYTES + 1)
    refused("has 2147483649 bytes, more than 2147483648", load_mesh, path, error=MeshError)
    path = tmp_path / "short.off"
    path.write_bytes(b"OFF\n5 0 0\n1 2 3\n4 5 6\n")
    with pytest.raises(MeshError, match="announces 5 vertices and 0 faces, but has only 2 lines"):
        load_mesh(path)


def test_comments_lines_solids_and_long_faces_within_the_limits_are_read(tmp_path: Path) -> None:
    sound = {
        "many.ply": ply_with_comments(10_000),
        "more.ply": ply_text() + b"\n" * 10 + b"what else\n" * 10,
        "solids.stl": b"solid\nendsolid\n" * 1000 + stl_text(),
    }
    for name, data in sound.items():
        (tmp_path / name).write_bytes(data)
        assert load_mesh(tmp_path / name, strict=name == "more.ply")[0].num_faces == 6
    angle = np.linspace(0, 2 * np.pi, 5000, endpoint=False)
    disc = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1)
    for name, text in (("disc.off", off_text), ("disc.ply", ply_text)):
        data = text(disc, np.arange(5000)[None])
        (tmp_path / name).write_bytes(data.replace(b"list uchar", b"list ushort"))
        assert load_mesh(tmp_path / name)[0].num_faces == 4998


def test_words_that_are_no_numbers_leave_the_others_as_they_are(tmp_path: Path) -> None:
    odd = ["1_0", "0x1", "1e", "--1", "1,5", "٣", "1" * 65, "infinite", "1e5e"]
    even = ["+1.5", "-.5", "5.", "1e5", "1E-3", "007", "nan", "-inf", "Infinity"]
    path = tmp_path / "words.obj"
    rows = [f"v {a} {b} 1" for a, b in zip(odd, even, strict=True)]
    path.write_text("\n".join([*rows, "v 0 0 0", "v 1 0 0", "v 0 1 0", "f -1 -2 -3"]))
    mesh, report = load_mesh(path)
    assert mesh.num_faces == 1
    assert report.warnings[0].startswith("9 vertices are not three finite numbers, first in line 1")
