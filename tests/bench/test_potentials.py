"""What ``bench.potentials`` trains, and which records it keeps."""

import json
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from bench import potentials
from tests.tasks.potential.frames import write


def arguments(**changes):
    values = {
        "data": Path("data"), "set": "ethanol", "product": "gaunt", "node": "gate", "minutes": 2.0,
        "seed": 1, "channels": None, "lmax_edge": None, "energy_weight": None, "compile": False,
        "learning_rate": None, "evaluate_every": 5,
    }  # fmt: skip
    return Namespace(**(values | changes))


@pytest.mark.parametrize("name", potentials.SETS)
def test_every_set_has_a_configuration_of_the_given_minutes(name):
    config = potentials.configure(arguments(set=name))
    assert (config.recipe.minutes, config.seed, config.product) == (2.0, 1, "gaunt")
    assert config.subset == name
    assert config.channels == (16 if len(name) == 2 else 32)
    assert potentials.configure(arguments(set=name, channels=7)).channels == 7


def test_records_are_told_apart_by_every_setting_but_not_by_where_data_lie():
    base = potentials.identity(potentials.configure(arguments()), 2)
    moved = potentials.configure(arguments(data=Path("elsewhere")))
    assert potentials.identity(moved, 2) == base
    for change in ({"seed": 2}, {"minutes": 3.0}, {"product": "full"}, {"lmax_edge": 1}):
        assert potentials.identity(potentials.configure(arguments(**change)), 2) != base
    assert potentials.identity(potentials.configure(arguments()), 1) != base


def test_a_run_is_recorded_once(tmp_path, monkeypatch, capsys):
    write(tmp_path / "rmd17", train=60)
    output = tmp_path / "results.json"
    words = [
        "potentials.py", "--data", tmp_path, "--set", "ethanol", "--minutes", "0.01", "--threads",
        "1", "--channels", "4", "--lmax-edge", "1", "--work", tmp_path / "work", "--output", output,
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", list(map(str, words)))
    potentials.main()
    with pytest.raises(SystemExit, match=r"results\.json exists"):
        potentials.main()
    monkeypatch.setattr(sys, "argv", [*map(str, words), "--resume"])
    potentials.main()
    (run,) = json.loads(output.read_text())["runs"]
    assert {"command", "circumstances", "threads", "parameters", "history"} <= run.keys()
    assert run["errors"]["test"]["frames"] == 6
    assert run["seconds"] >= 0.6
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", [*map(str, words), "--resume", "--seed", "1"])
    potentials.main()
    assert len(json.loads(output.read_text())["runs"]) == 2
