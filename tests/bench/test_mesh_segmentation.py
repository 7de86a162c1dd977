"""The benchmark of segmentation runs end to end on a handful of animals."""

import json
import sys

import pytest

from bench import mesh_segmentation


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mesh_segmentation, "FACES", (300, 200))


def test_a_short_run_is_recorded(tmp_path, monkeypatch):
    command = ["mesh_segmentation", "--runs", "1", "--epochs", "1", "--per-class", "2"]
    command += ["--work", str(tmp_path / "work"), "--output", str(tmp_path / "out.json")]
    monkeypatch.setattr(sys, "argv", command)
    mesh_segmentation.main()
    results = json.loads((tmp_path / "out.json").read_text())
    assert set(results["mean"]) == {"300", "200"}
    assert results["runs"][0]["faces"]["200"]["meshes"] == 6
