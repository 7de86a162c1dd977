"""The committed data are what their list says, small, and right."""

import csv
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from equigeo.graphs import neighbor_list
from equigeo.mesh import load_mesh
from equigeo.tensor_products import spherical_harmonics
from tests.make_data import DATA, README, listed
from tests.shared_data import available

MOST = 3 << 20


def test_every_file_has_its_size_and_checksum_in_the_list():
    assert README.read_text().endswith(listed()), "run python -m tests.make_data"


def test_the_data_are_small_and_every_folder_has_source_and_licence():
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) < MOST
    text = README.read_text()
    for folder in DATA.iterdir():
        if folder.is_dir() and folder.name != "LICENSES":
            (row,) = [line for line in text.splitlines() if line.startswith(f"| `{folder.name}` |")]
            assert len([cell for cell in row.split("|") if cell.strip()]) == 4
    named = {name for name in README.read_text().split("`") if name.startswith("LICENSES/")}
    assert named == {f"LICENSES/{path.name}" for path in (DATA / "LICENSES").iterdir()}


def test_a_whole_set_beside_the_checkout_is_used_too(monkeypatch, tmp_path):
    monkeypatch.setattr("tests.shared_data._SHARED", tmp_path)
    monkeypatch.setattr("tests.shared_data.FULL", True)
    assert available("mnist") == [DATA / "mnist"]
    (tmp_path / "mnist").mkdir()
    assert available("mnist") == [DATA / "mnist", tmp_path / "mnist"]


def golden(name):
    with (DATA / "golden" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_spherical_harmonics_are_those_of_the_closed_form():
    rows = golden("spherical_harmonics.csv")
    points = [[float(Fraction(row[axis])) for axis in "xyz"] for row in rows]
    degrees = list(range(7))
    x = torch.tensor(points, dtype=torch.float64)
    values = spherical_harmonics(degrees, x, normalize=True, normalization="component")
    places = [int(row["l"]) ** 2 + int(row["l"]) + int(row["m"]) for row in rows]
    got = values[torch.arange(len(rows)), places]
    want = torch.tensor([float(row["value"]) for row in rows], dtype=torch.float64)
    assert len(rows) == 4 * 49
    # Points are rounded in their last place; a polynomial of degree 6 magnifies that six times.
    torch.testing.assert_close(got, want, rtol=0, atol=1e-14)


def test_the_energy_of_a_crystal_is_that_of_the_lattice_sum():
    cell = torch.tensor([[0.0, 1, 1], [1, 0, 1], [1, 1, 0]]).double() * 2 ** (-1 / 3)
    for row in golden("lattice_energies.csv"):
        edges = neighbor_list(torch.zeros(1, 3).double(), float(row["cutoff"]), cell)
        inverse = edges.vectors.square().sum(1) ** -3
        assert edges.num_edges == int(row["neighbors"])
        energy = float((2 * (inverse.square() - inverse)).sum())
        # half a unit of the twelfth decimal, the last of the table, and as much for rounding
        assert energy == pytest.approx(float(row["energy_per_atom"]), abs=1e-12)


def test_generated_meshes_are_read_whole():
    for path in (DATA / "meshes").iterdir():
        mesh, report = load_mesh(path)
        is_open = "open" in path.stem
        assert mesh.num_faces == (360 if is_open else 400), path
        assert report.is_clean, path
        rings = 2 if path.stem == "scissors" else 0  # each takes two vertices
        assert mesh.num_vertices == 202 - 2 * rings or is_open, path


def test_clouds_lie_in_the_layout_of_classes_and_parts():
    folder = DATA / "clouds"
    found = {path.relative_to(folder).parts[:2] for path in folder.rglob("*.*")}
    assert found == {
        (name, part) for name in ("bird", "glasses", "horse") for part in ("train", "test")
    }
    for path in folder.rglob("*.np[yz]"):
        points = np.load(path, allow_pickle=False)
        points = points["points"] if path.suffix == ".npz" else points
        assert points.shape == (256, 3)
        assert math.isfinite(points.sum())
