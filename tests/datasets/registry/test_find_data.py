"""Data that are named by a path or as a known data set."""

import pytest

from equigeo.datasets.registry.data_sets import find_data_set
from equigeo.datasets.registry.find_data import find_data


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_DATA", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "data"


def put(name):
    """Let all files of a data set be there."""
    entry = find_data_set(name)
    for file in entry.used:
        (entry.path / file).parent.mkdir(parents=True, exist_ok=True)
        (entry.path / file).write_text("")
    return entry


def test_a_known_data_set_is_found_by_its_name(root):
    put("rmd17"), put("shrec11")
    assert find_data("rmd17", "potential") == root / "rmd17"
    where = root / "shrec11_meshcnn" / "shrec_16.tar.gz"  # one file is what readers take
    assert find_data("shrec11", "mesh-classification") == where


def test_paths_come_first(tmp_path):
    put("mnist")
    assert find_data("./mnist", "affnist") == tmp_path / "here" / "mnist"
    (tmp_path / "here" / "mnist").mkdir()
    assert find_data("mnist", "affnist") == tmp_path / "here" / "mnist"
    assert find_data("nowhere", "affnist") == tmp_path / "here" / "nowhere"


def test_one_that_is_absent_or_of_another_task_is_refused():
    with pytest.raises(ValueError, match=r"^qm9: no such file or folder; get it by: equigeo data"):
        find_data("qm9", "potential")
    put("qm9")
    with pytest.raises(ValueError, match="the data set qm9 is for the task potential"):
        find_data("qm9", "affnist")
