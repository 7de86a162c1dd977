"""The benchmark of resolutions runs end to end on a handful of shapes."""

import json
import sys

import numpy as np

from bench import mesh_resolution
from tests.mesh import shapes


def test_a_short_run_is_recorded_and_kept(tmp_path, monkeypatch):
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
    command = ["mesh_resolution", "--data", str(tmp_path / "shapes.npz"), "--runs", "1"]
    command += ["--epochs", "1", "--work", str(tmp_path / "work")]
    command += ["--output", str(tmp_path / "out.json")]
    monkeypatch.setattr(sys, "argv", command)
    mesh_resolution.main()
    (run,) = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert run["test shapes"] == 4
    assert set(run["accuracy"]) == {"1000", "500", "2500"}
    written = (tmp_path / "out.json").read_text()
    monkeypatch.setattr(sys, "argv", [*command, "--resume"])
    mesh_resolution.main()  # nothing is missing
    assert (tmp_path / "out.json").read_text() == written
