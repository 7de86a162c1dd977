"""Scripts of benchmarks run on small problems, and what they compute beside times."""

import argparse
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bench import mesh_scale, price_of_freedom, robustness_peers
from bench.engraved_cubes import linear_accuracy, pooled_features
from bench.intervals import of_ratio
from bench.mesh_scale import run_case
from bench.modelnet10 import VARIANTS, other_network, run_config
from bench.op_calls import CASES, ON_THE_CPU, Size, all_calls
from bench.recorder import plain
from bench.report import main
from bench.results_table import PAGE, UNKNOWN, content, seen
from bench.robustness_peers import compare, totals
from bench.rooflines import ARITHMETIC, BANDWIDTH, summarized
from equigeo.datasets import engraved_cubes, split_indices
from equigeo.mesh import PrimalDualGraph
from equigeo.ops.runtime.declare import SCHEMAS
from tests.bench.test_arithmetic import WITHOUT_KERNELS


def test_a_linear_model_of_pooled_features_does_not_tell_icons_apart(tmp_path):
    cubes = engraved_cubes(icons=5, placements=2, cache=tmp_path)
    graphs = [PrimalDualGraph.from_mesh(mesh, features="reference") for mesh in cubes.meshes]
    train, test = split_indices(cubes, "folder")
    pooled = pooled_features(graphs)
    accuracy = linear_accuracy(pooled, cubes.labels, train, test, ridge=1.0)
    assert accuracy < 0.3  # specs/primal_dual_meshes.md, section 6.3
    # it would tell them apart if some feature did
    telling = torch.cat([pooled, torch.nn.functional.one_hot(cubes.labels)], dim=1)
    assert linear_accuracy(telling, cubes.labels, train, test, ridge=1.0) > 0.95


ROUNDING = 1e-12  # a few operations in float64


def test_ratio_of_interleaved_rounds_is_independent_of_load():
    load = np.random.default_rng(2).uniform(1, 3, 9)
    assert of_ratio((5 * load).tolist(), load.tolist()) == pytest.approx((5, 5), rel=ROUNDING)
    low, high = of_ratio((5 * load).tolist(), load[::-1].tolist())
    assert high / low > 1.1
    with pytest.raises(ValueError, match="interleaved, got 2 and 3"):
        of_ratio([1.0, 2.0], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("case", list(mesh_scale.CASES))
def test_every_case_runs_and_keeps_its_repetitions(case):
    row = run_case(case, side=6, repetitions=3)
    assert (row["case"], row["faces"]) == (case, 72)
    assert len(row["repetitions"]) == 3
    for run in row["repetitions"]:
        assert set(run) == ({"forward"} if case.startswith("pooling") else {"forward", "backward"})
        assert all(phase["seconds"] > 0 for phase in run.values())
    later = [sum(phase["seconds"] for phase in run.values()) for run in row["repetitions"][1:]]
    assert min(later) <= row["seconds, median"] <= max(later)
    assert 0 < row["GiB before"] <= row["peak GiB"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_changes_recipe_or_network_of_both_networks_alike(variant):
    for network in ("mds", "plain"):
        preset, given = (
            argparse.Namespace(
                network=network, variant=name, epochs=epochs, points=None, seed=0, holdout=50,
                evaluate_every=0, data=Path("clouds"),
            )
            for name, epochs in (("as preset", None), (variant, 3))
        )  # fmt: skip
        preset, changed = run_config(preset), run_config(given)
        recipe = VARIANTS[variant].get("recipe", {}) | {"epochs": 3}
        assert changed == replace(preset, recipe=replace(preset.recipe, **recipe))
        model = other_network(given, changed)
        assert (model is None) == ("network" not in VARIANTS[variant])
        if model is not None:
            settings = model.config.to_dict()["settings"]
            assert plain(settings) == plain(VARIANTS[variant]["network"])
            assert (model.config.group is None) == (network == "plain")


def test_tables_of_all_settings_are_recorded(tmp_path, monkeypatch):
    output = tmp_path / "price.json"
    words = ["price", "--lmax", "2", "--batches", "3", "--repetitions", "2"]
    monkeypatch.setattr(sys, "argv", [*words, "--output", str(output)])
    price_of_freedom.main()
    runs = json.loads(output.read_text())["runs"]
    assert [(run["setting"], run["lmax"]) for run in runs] == [
        (setting, lmax) for setting in ("siso", "simo", "mimo") for lmax in (1, 2)
    ]
    assert price_of_freedom.comparison(runs[-1]).rows[0].milliseconds > 0


def test_the_page_has_every_section_and_fetches_nothing(tmp_path):
    main([str(tmp_path / "report.html")])
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    for words in ("against the degree", "degree of freedom", "memory traffic", "beside peers",
                  "Training loss"):  # fmt: skip
        assert words in text
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", text)
    drawings = re.findall(r'class="figure" data-target="[^"]+">(.*?)</script>', text, re.DOTALL)
    assert len(drawings) >= 14
    for drawing in drawings:
        assert all(any(trace["x"]) and any(trace["y"]) for trace in json.loads(drawing)["data"])
    assert text.count("commit") >= len(drawings)


def test_page_lists_all_records():
    assert PAGE.read_text() == content(), "python -m bench.results_table --write"
    assert seen(["AMD EPYC", None, "AMD EPYC"]) == f"AMD EPYC, {UNKNOWN}"


def test_peers_that_fail_or_are_absent_are_results(tmp_path, monkeypatch):
    def fail(points, faces):
        raise RuntimeError("cannot")

    peers = {"absent": ("no_such_module", "", fail), "failing": ("numpy", "numpy", fail)}
    monkeypatch.setattr(robustness_peers, "PEERS", peers)
    path = tmp_path / "book.obj"
    flat = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 -1 0\nv 0 0 1\nf 1 2 3\nf 2 1 4\n"
    path.write_text(flat)
    assert compare(path) is None  # no edge has more than two faces
    path.write_text(f"{flat}f 1 2 5\n")
    row = compare(path)
    assert (row["absent"], row["failing"]) == (None, {"error": "RuntimeError: cannot"})
    assert (row["welded"]["faces"], row["welded"]["crowded_edges"]) == (3, 1)
    assert (row["equigeo cut"]["faces"], row["equigeo cut"]["pairs"]) == (3, 1)
    assert (row["equigeo drop"]["faces"], row["equigeo drop"]["area"]) == (2, 1.0)
    found = totals({"book.obj": row})
    assert (found["absent"], found["failing"]["errors"]) == (None, 1)
    assert found["equigeo cut"]["files_with_all_faces"] == 1
    assert found["equigeo drop"]["least_share_of_area"] == round(1 / 1.5, 6)


def test_every_op_is_called():
    called = {op for op, _, _ in all_calls(Size(8, 2, 16), {**CASES, **ON_THE_CPU}).values()}
    assert called == set(SCHEMAS) - WITHOUT_KERNELS


@pytest.mark.parametrize(
    ("size", "by", "share"), [(4e9, "bandwidth", 0.5), (1e9, "arithmetic", 0.2)]
)
def test_the_bound_is_what_takes_longer(size, by, share):
    row = {"bytes": size, "multiply-adds": 2e10, "seconds": {1: [1.0, 1.5, 9.0], 2: [1.0] * 3}}
    found = summarized(row, {BANDWIDTH: 8.0, ARITHMETIC: 100.0})
    assert found["bound by"] == by
    assert found[f"share of {by}"] == pytest.approx(share)
    assert found["threads against one"] == 1.5
    assert found["efficiency"] == 0.75
    assert found["microseconds"] == {1: 1.5e6, 2: 1e6}


def test_a_run_keeps_machine_and_rows(tmp_path):
    output = tmp_path / "rooflines.json"
    command = [sys.executable, "-m", "bench.rooflines", "--edges", "8", "--rounds", "1"]
    root = Path(__file__).parents[2]
    subprocess.run([*command, "--output", str(output)], check=True, cwd=root, timeout=1200)
    record = json.loads(output.read_text())
    assert all(bound > 0.1 for bounds in record["machine"].values() for bound in bounds.values())
    ops = {row["op"].partition(",")[0] for row in record["rows"]}
    assert ops == set(SCHEMAS) - WITHOUT_KERNELS
    assert all(set(row["seconds"]) == {"1", str(record["threads"])} for row in record["rows"])
