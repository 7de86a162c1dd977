"""Benchmarks of meshes run end to end on a handful of shapes."""

import json
import sys

import numpy as np
import pytest

from bench import mesh_resolution, mesh_segmentation
from tests.mesh import shapes


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Call a script with some options, and return what it wrote."""
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))

    def call(script, *options):
        output = tmp_path / "out.json"
        command = [script.__name__, "--runs", "1", "--epochs", "1", *options]
        command += ["--work", str(tmp_path / "work"), "--output", str(output)]
        monkeypatch.setattr(sys, "argv", command)
        script.main()
        return json.loads(output.read_text())

    return call


@pytest.fixture
def data(tmp_path):
    meshes = [shapes.turned(shapes.lumpy(shapes.icosphere(1), seed=k % 2), k) for k in range(24)]
    counts = [[0], np.cumsum([m.num_vertices for m in meshes])]
    faces = [[0], np.cumsum([m.num_faces for m in meshes])]
    np.savez(
        tmp_path / "shapes.npz",
        vertices=np.concatenate([m.vertices.numpy() for m in meshes]),
        faces=np.concatenate([m.faces.numpy() for m in meshes]),
        vertex_offset=np.concatenate(counts),
        face_offset=np.concatenate(faces),
        label=np.arange(24) % 2,
    )
    return "--data", str(tmp_path / "shapes.npz")


def test_resolutions_are_recorded_and_kept(run, data):
    record = run(mesh_resolution, *data)
    (one,) = record["runs"]
    assert one["test shapes"] == 4
    assert set(one["accuracy"]) == {"1000", "500", "2500"}
    assert run(mesh_resolution, *data, "--resume") == record  # nothing is missing


def test_segmentations_are_recorded(run, monkeypatch):
    monkeypatch.setattr(mesh_segmentation, "FACES", (300, 200))
    record = run(mesh_segmentation, "--per-class", "2")
    assert set(record["mean"]) == {"300", "200"}
    assert record["runs"][0]["faces"]["200"]["meshes"] == 6
