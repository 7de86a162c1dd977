"""``equigeo train potential``, and what its checkpoints are good for."""

from __future__ import annotations

import json

import numpy as np
import pytest

from equigeo.cli import main
from equigeo.datasets import format_extxyz
from tests.tasks.potential.frames import crystals, molecules

TRAIN = ("train", "potential")
SMALL = (
    "--set", "ethanol", "--epochs", "2", "--batch-size", "3", "--channels", "4", "--lmax-edge", "1",
    "--cutoff", "3", "--validation", "4", "--correlation", "2",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("cli") / "run"
    assert main([*TRAIN, "--data", str(folder), "--output", str(output), *SMALL]) == 0
    return output


def test_a_run_is_evaluated_and_its_report_opens_offline(run, capsys, tmp_path):
    checkpoint, results = str(run / "model.ckpt"), tmp_path / "r.json"
    assert main(["evaluate", checkpoint, "--json", str(results)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    saved = json.loads(results.read_text())
    test = saved["sets"]["test"]
    assert f"{test['force MAE (meV/A)']:.2f}" in out
    assert test["frames"] == 6
    page = (run / "report.html").read_text()
    for part in ("Interatomic potential", "Learning curve", "parity-forces", "by element"):
        assert part in page
    assert "src=" not in page.split("<script>")[0]


def test_minutes_are_said(folder, tmp_path, capsys):
    options = [*SMALL, "--minutes", "0.01", "--product", "gaunt", "--node", "gate"]
    output = str(tmp_path / "run")
    assert main([*TRAIN, "--data", str(folder), "--output", output, *options]) == 0
    out, err = capsys.readouterr()
    assert "product gaunt, default preset, 0.01 minutes" in err
    assert "validation force MAE" in out
    assert "meV/A" in out
    assert main([*TRAIN, "--output", output, "--resume"]) == 0


def test_files_are_predicted_as_extended_xyz_or_json(run, capsys, tmp_path, folder):
    pytest.importorskip("ase", reason="needs ase")
    checkpoint = str(run / "model.ckpt")
    chain, crystal = tmp_path / "chain.xyz", tmp_path / "crystal.extxyz"
    chain.write_text(format_extxyz(molecules(3)))
    crystal.write_text(format_extxyz(crystals(2)))
    files = [str(chain), str(crystal), str(folder / "rmd17_ethanol_test_01.npz")]
    assert main(["predict", checkpoint, *files, "--output", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "3 frames, energies " in out
    assert "chain.predicted.extxyz" in out
    text = (tmp_path / "crystal.predicted.extxyz").read_text()
    assert 'stress="' in text
    assert not (tmp_path / "chain.predicted.json").exists()
    assert (
        main(["predict", checkpoint, files[0], "--format", "json", "--output", str(tmp_path)]) == 0
    )
    content = json.loads((tmp_path / "chain.predicted.json").read_text())
    assert np.shape(content["frames"][2]["forces"]) == (5, 3)


def test_what_cannot_be_used_is_one_error(run, capsys, tmp_path, folder):
    checkpoint = str(run / "model.ckpt")
    empty = tmp_path / "empty"
    empty.mkdir()
    capsys.readouterr()
    for arguments, part in (
        (TRAIN, "--data is missing"),
        ((*TRAIN, "--data", folder, "--output", tmp_path / "o"), "name one of its sets, ethanol"),
        ((*TRAIN, "--data", empty, "--output", tmp_path / "o"), "expected one train*.xyz"),
        ((*TRAIN, "--data", folder, *SMALL, "--validation", "12"), "too few to put 12"),
        ((*TRAIN, "--data", folder, *SMALL, "--jitter", "1"), "--jitter"),
        ((*TRAIN, "--data", folder, *SMALL, "--devices", "2", "--minutes", "1"), "one device"),
        (("evaluate", checkpoint, "--data", tmp_path / "none"), "no such file"),
        (("predict", checkpoint, tmp_path / "none.npz"), "no such file"),
        (("predict", checkpoint, empty), "has no file .xyz, .extxyz, .npz below it"),
        (("predict", checkpoint, next(folder.iterdir()), "--view"), "a potential has none"),
        (("predict", checkpoint, next(folder.iterdir()), "--top", "2"), "a potential has none"),
    ):
        assert main([str(argument) for argument in arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert part in err
        assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "o").exists()
