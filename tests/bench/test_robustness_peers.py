import numpy as np
import pytest

from bench import robustness_peers
from bench.robustness_peers import compare, measure, totals

BOOK = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 -1 0\nv 0 0 1\nf 1 2 3\nf 2 1 4\nf 1 2 5\n"


@pytest.fixture
def no_peers(monkeypatch):
    monkeypatch.setattr(robustness_peers, "find_spec", lambda name: None)


def test_a_file_without_crowded_edges_has_no_row(tmp_path):
    path = tmp_path / "flat.obj"
    path.write_text(BOOK.replace("f 1 2 5\n", ""))
    assert compare(path) is None


def test_peers_that_are_absent_have_null_columns(tmp_path, no_peers):
    path = tmp_path / "book.obj"
    path.write_text(BOOK)
    row = compare(path)
    assert [name for name, column in row.items() if column is None] == list(robustness_peers.PEERS)
    assert (row["welded"]["faces"], row["welded"]["crowded_edges"]) == (3, 1)
    assert (row["equigeo cut"]["faces"], row["equigeo cut"]["pairs"]) == (3, 1)
    assert (row["equigeo drop"]["faces"], row["equigeo drop"]["area"]) == (2, 1.0)
    found = totals({"book.obj": row})
    assert found["libigl split_nonmanifold"] is None
    assert found["equigeo cut"]["files_with_all_faces"] == 1
    assert found["equigeo drop"]["least_share_of_area"] == round(1 / 1.5, 6)


def test_a_failing_peer_is_a_result(tmp_path, monkeypatch):
    def fail(points, faces):
        raise RuntimeError("cannot")

    monkeypatch.setattr(robustness_peers, "PEERS", {"peer": ("numpy", "numpy", fail)})
    path = tmp_path / "book.obj"
    path.write_text(BOOK)
    row = compare(path)
    assert row["peer"] == {"error": "RuntimeError: cannot"}
    assert totals({"book.obj": row})["peer"]["errors"] == 1


def test_pairs_wound_alike_clash():
    points, faces = np.eye(4, 3), np.array([[0, 1, 2], [0, 1, 3]])
    found = measure(points, faces)
    assert (found["pairs"], found["clashing_pairs"]) == (0, 1)
