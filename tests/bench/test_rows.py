"""Every public layer and every op has a row; results are compared before they are timed."""

import argparse
import json
import re
from dataclasses import replace
from itertools import chain

import pytest
import torch
from torch import nn

import equigeo
from bench import figures, layers
from bench.peers import Library, drawn, of_module
from bench.recorder import Record
from bench.row import (
    Problem,
    Products,
    Row,
    best_peers,
    library,
    measure,
    needs,
    own_products,
    require,
    slower,
)
from bench.rows import all_rows
from equigeo.ops.runtime.declare import SCHEMAS
from tests.wrong_inputs import refused

FAMILIES = ("tensor_products", "affine", "mesh", "mds", "points", "potentials")
BASES = {"tensor_products.PathProduct", "tensor_products.Product"}  # to be inherited from


def public_layers():
    found = set()
    for family in FAMILIES:
        package = getattr(equigeo, family)
        named = ((name, getattr(package, name)) for name in package.__all__)
        found |= {
            f"{family}.{name}"
            for name, value in named
            if isinstance(value, type) and issubclass(value, nn.Module)
        }
    return found - BASES


def without_row(rows):
    return public_layers() - {row.layer for row in rows}


def unexplained(runs, rows):
    whys = {row.name: row.why for row in rows}
    names = (f"{run['layer']}, {run['problem']}" for run in runs if slower(run))
    return [name for name in names if not whys.get(name)]


def test_every_public_layer_has_a_row():
    rows = all_rows()
    assert without_row(rows) == set()
    left = [row for row in rows if row.layer != "affine.GroupConv"]
    assert without_row(left) == {"affine.GroupConv"}


def test_every_op_has_a_row():
    # The body of the other is made of PyTorch's functions.
    missing = {f"ops.{op}" for op in SCHEMAS} - {row.layer for row in all_rows()}
    assert missing == {"ops.principal_axes_nd"}


def test_names_of_rows_are_unique():
    names = [row.name for row in all_rows()]
    assert len(names) == len(set(names))


def test_a_ratio_below_one_has_a_reason():
    rows = all_rows()
    assert unexplained(chain.from_iterable(figures.layer_records().values()), rows) == []
    row = next(row for row in rows if not row.why)
    run = {**row.key, "ratio": {"forward": {"a": 2.0, "b": 0.9}, "both": {}}}
    assert best_peers(run) == {"forward": ("b", 0.9)}
    assert unexplained([run], rows) == [row.name]
    assert unexplained([run | {"ratio": {"forward": {"a": 2.0}}}], rows) == []


def toy(**peers):
    x = drawn((5, 3))
    ours = library(lambda x: x * x, x)
    made = {name: library(f, x, wanted="ours") for name, f in peers.items()}
    absent = needs("no_such_module", "make no-such-target", lambda: Library({}, []))
    return Row("toy", "squares", lambda: Problem(ours, {**made, "absent": absent}, 120))


def record_of(output, *rows):
    given = argparse.Namespace(ours=False, threads=1, minutes=1.0, seconds=0.01)
    return layers.record_rows(list(rows), Record(output, resume=True), given)


def test_the_table_has_a_line_per_row_with_the_peers_of_all_records(tmp_path, monkeypatch):
    x = drawn((5, 3))

    def row_with(**peers):
        absent = dict.fromkeys({"one", "other"} - peers.keys(), "make it")
        found = {name: library(torch.square, x, wanted="ours") for name in peers}
        make = lambda: Problem(library(torch.square, x), {**found, **absent})  # noqa: E731
        return Row("toy", "squares", make, libraries=tuple(peers), size="large")

    records = {}
    for name in ("one", "other"):
        output = tmp_path / f"layers_{name}.json"
        assert record_of(output, row_with(**{name: True})) == []
        records[output.stem] = json.loads(output.read_text())["runs"]
    monkeypatch.setattr(figures, "all_rows", lambda: [row_with()])
    monkeypatch.setattr(figures, "layer_records", lambda: records)
    line, *below = figures.layers()
    times, ratios = line.split("|")[2:4]
    assert times.split()[-3:] == ["us", "per", "call"]
    assert re.findall(r"[\d.]+x / [\d.]+x (\w+)", ratios) == ["one", "other"]
    assert [re.findall(r"`(\w+).json`", each) for each in below] == [[name] for name in records]
    monkeypatch.setattr(figures, "layer_records", lambda: {})
    assert list(figures.layers()) == []  # a large row without a record
    monkeypatch.setattr(figures, "all_rows", lambda: [replace(row_with(), size="usual")])
    assert list(figures.layers()) == ["| `toy`, squares | – | – | – | – |  |"]


def test_rows_of_an_environment_are_those_with_peers_there():
    found = layers.chosen_rows("", "large", "mace")
    assert {row.layer for row in found} == {
        "potentials.MessagePassingPotential",
        "interop.accelerate",
    }
    assert all("mace" in row.libraries for row in found)
    words = ("", "large", "other")
    refused("no row has .* and peers in other", layers.chosen_rows, *words, error=SystemExit)
    makefile = (layers.REPOSITORY / "Makefile").read_text()
    named = re.search(r"^LIBRARIES := (.*)", makefile, re.MULTILINE)[1].split()
    assert {name for row in all_rows() for name in row.libraries} == {*named}


def test_a_peer_that_is_not_installed_is_named_with_its_command(tmp_path, capsys):
    output = tmp_path / "record.json"
    assert record_of(output, toy(peer=torch.square)) == []
    (run,) = json.loads(output.read_text())["runs"]
    assert run["absent"] == {"absent": "make no-such-target"}
    assert set(run["ratio"]["both"]) == {"peer"}
    assert run["share of the bound"].keys() == {"forward", "both"}
    assert "make no-such-target" in capsys.readouterr().out
    assert record_of(output, toy(peer=torch.square)) == []  # which is there
    assert len(json.loads(output.read_text())["runs"]) == 1


def test_a_row_whose_library_is_not_installed_is_skipped_with_its_command(tmp_path, capsys):
    row = Row("toy", "other", lambda: require("no_such_module", "make no-such-target"))
    assert record_of(tmp_path / "record.json", row) == []
    assert not (tmp_path / "record.json").exists()
    assert layers.compare_all([row]) == 0
    assert capsys.readouterr().out.count("make no-such-target") == 2


@pytest.mark.parametrize("wrong", [torch.exp, lambda x: x * x.detach()], ids=["value", "gradient"])
def test_a_result_that_differs_is_an_error_and_other_rows_go_on(wrong, tmp_path):
    output = tmp_path / "record.json"
    second = Row("toy", "others", toy(peer=torch.square).make)
    (error,) = record_of(output, toy(peer=wrong), second)
    assert error.startswith("toy, squares: Tensor-likes are not close")
    assert [run["problem"] for run in json.loads(output.read_text())["runs"]] == ["others"]


def test_a_ratio_that_has_fallen_is_found():
    row = toy(peer=torch.square)
    run = measure(row, 0.01)
    high = {
        kind: {name: 1e3 * x for name, x in found.items()} for kind, found in run["ratio"].items()
    }
    assert layers.fallen(row, run | {"ratio": high}, 0.01).keys() == {"forward, peer", "both, peer"}
    low = {
        kind: {name: 1e-3 * x for name, x in found.items()} for kind, found in run["ratio"].items()
    }
    assert layers.fallen(row, run | {"ratio": low}, 0.01) == {}


def test_modules_are_timed_in_evaluation_without_gradients_and_in_training_with():
    norm, seen = nn.BatchNorm1d(3), []

    def noting(x):
        seen.append(norm.training)
        return norm(x)

    row = Row("toy", "norm", lambda: Problem(of_module(norm, drawn((5, 3)), noting)))
    found = measure(row, 0.01)
    assert {*seen} == {True, False}
    assert found["kinds"] == ("forward", "both")


def test_own_products_are_the_matrix_products_of_both_passes():
    layer = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = torch.ones(5, 3, requires_grad=True)
    counts = []
    for call in (lambda: layer(x), lambda: layer(x).sum().backward(), lambda: x.tanh()):
        with Products() as products:
            call()
        counts.append(len(products.calls))
    assert counts == [2, 6, 0]
    assert own_products(lambda: x.tanh()) is None


@pytest.mark.full
@pytest.mark.parametrize("row", [r for r in all_rows() if r.size == "short"], ids=lambda r: r.name)
def test_short_rows_agree_with_their_peers(row):
    assert layers.main(["--once", "--size", "short", "--select", row.name]) == 0
