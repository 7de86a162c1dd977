"""Variants of the ModelNet10 benchmark are what their names say, for every network alike."""

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
from bench.cuda_resources import Resources, kernel_name, read_log
from bench.engraved_cubes import linear_accuracy, pooled_features
from bench.intervals import of_ratio
from bench.mesh_scale import ALLOCATORS, growth, in_child, run_case
from bench.modelnet10 import VARIANTS, other_network, run_config
from bench.op_calls import CASES, ON_THE_CPU, Size, all_calls
from bench.recorder import plain
from bench.report import main
from bench.results_table import PAGE, UNKNOWN, content, seen
from bench.robustness_peers import compare, measure, totals
from bench.rooflines import ARITHMETIC, BANDWIDTH, summarized
from equigeo.datasets import engraved_cubes, split_indices
from equigeo.mesh import PrimalDualGraph
from equigeo.ops.runtime.declare import SCHEMAS
from tests.bench.test_arithmetic import WITHOUT_KERNELS

# Two kernels as nvcc 13 compiles them, one with shared memory, and one that spills.
SYMBOL = (
    "_ZN7equigeo52_GLOBAL__N__a1b666f2_13_axis_flags_cu_4f313b49_28492{}IdEEvNS_9AxisFlagsIT_EE"
)
LOG = f"""[18/36] Building CUDA object csrc/kernels/cuda/axis_flags.cu.o
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '{SYMBOL.format("12judge_clouds")}' for 'sm_90'
ptxas info    : Function properties for {SYMBOL.format("12judge_clouds")}
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 46 registers, used 0 barriers
ptxas info    : Compile time = 546.089 ms
ptxas info    : Compiling entry function '{SYMBOL.format("4join")}' for 'sm_80'
ptxas info    : Function properties for {SYMBOL.format("4join")}
    32 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads
ptxas info    : Used 80 registers, used 1 barriers, 20480 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 627.491 ms
"""


def test_the_log_of_the_compiler_is_read():
    assert list(read_log(LOG)) == [
        Resources("axis_flags.cu", "judge_clouds<double>", "sm_90", 46, 0, 0),
        Resources("axis_flags.cu", "join<double>", "sm_80", 80, 52, 20480),
    ]
    assert list(read_log("")) == []


def test_a_log_that_breaks_off_is_refused():
    with pytest.raises(ValueError, match=r"nothing of the registers of .*join<double>.* on sm_80"):
        list(read_log(LOG[: LOG.index("    32 bytes stack")]))


def test_names_are_those_of_kernels_alone():
    name = "void equigeo::(anonymous namespace)::run<equigeo::Product, float>(equigeo::Op<int>)"
    assert kernel_name(name) == "run<Product, float>"
    assert kernel_name("sum_rows<float>") == "sum_rows<float>"
    hashed = "void equigeo::_GLOBAL__N__a1_13_x_cu_4f::sum<double>(equigeo::A<double>)"
    assert kernel_name(hashed) == "sum<double>"


@pytest.fixture(scope="module")
def cubes(tmp_path_factory):
    return engraved_cubes(icons=5, placements=2, cache=tmp_path_factory.mktemp("cubes"))


def test_a_linear_model_of_pooled_features_does_not_tell_icons_apart(cubes):
    graphs = [PrimalDualGraph.from_mesh(mesh, features="reference") for mesh in cubes.meshes]
    train, test = split_indices(cubes, "folder")
    pooled = pooled_features(graphs)
    accuracy = linear_accuracy(pooled, cubes.labels, train, test, ridge=1.0)
    assert accuracy < 0.3  # specs/primal_dual_meshes.md, section 6.3
    # it would tell them apart if some feature did
    telling = torch.cat([pooled, torch.nn.functional.one_hot(cubes.labels)], dim=1)
    assert linear_accuracy(telling, cubes.labels, train, test, ridge=1.0) > 0.95


def test_pooled_features_are_means_and_maxima_of_both_streams(cubes):
    graph = PrimalDualGraph.from_mesh(cubes.meshes[0])
    (row,) = pooled_features([graph])
    primal, dual = graph.x_primal.double(), graph.x_dual.double()
    expected = [primal.mean(0), primal.amax(0), dual.mean(0), dual.amax(0)]
    torch.testing.assert_close(row, torch.cat(expected))


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


def test_a_child_runs_under_the_setting_alone(monkeypatch):
    seen = {}

    def check_output(command, env):
        seen.update(env)
        return '{"case": "default block"}'

    monkeypatch.setenv("MALLOC_TOP_PAD_", "1")
    monkeypatch.setattr("bench.mesh_scale.subprocess.check_output", check_output)
    row = in_child("default block", 6, 1, "huge pages")
    assert row == {"allocator": "huge pages", "case": "default block"}
    assert seen["THP_MEM_ALLOC_ENABLE"] == "1"
    assert not set(ALLOCATORS["kept"]) & set(seen)


def test_growth_compares_the_largest_mesh_with_the_smallest():
    rows = [
        {"case": "c", "allocator": a, "faces": faces, "microseconds a face": cost}
        for a, cost, faces in [("kept", 3.0, 100), ("kept", 9.0, 50), ("as is", 2.0, 7)]
    ]
    rows.append({"case": "c", "allocator": "kept", "faces": 10, "microseconds a face": 2.0})
    assert growth(rows) == [
        {"case": "c", "allocator": "kept", "largest over smallest": 1.5},
        {"case": "c", "allocator": "as is", "largest over smallest": 1.0},
    ]


def arguments(network, variant, epochs=None):
    return argparse.Namespace(
        network=network, variant=variant, epochs=epochs, points=None, seed=0, holdout=50,
        evaluate_every=0, data=Path("clouds"),
    )  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_changes_recipe_or_network_of_both_networks_alike(variant):
    for network in ("mds", "plain"):
        given = arguments(network, variant, epochs=3)
        preset, changed = run_config(arguments(network, "as preset")), run_config(given)
        recipe = VARIANTS[variant].get("recipe", {}) | {"epochs": 3}
        assert changed == replace(preset, recipe=replace(preset.recipe, **recipe))
        model = other_network(given, changed)
        assert (model is None) == ("network" not in VARIANTS[variant])
        if model is not None:
            settings = model.config.to_dict()["settings"]
            assert plain(settings) == plain(VARIANTS[variant]["network"])
            assert (model.config.group is None) == (network == "plain")


def test_tables_are_kept_and_continued(tmp_path, monkeypatch):
    output = tmp_path / "price.json"
    words = ["price", "--lmax", "2", "--batches", "3", "--repetitions", "2"]
    monkeypatch.setattr(sys, "argv", [*words, "--output", str(output)])
    price_of_freedom.main()
    record = json.loads(output.read_text())
    runs = record["runs"]
    assert [(run["setting"], run["lmax"]) for run in runs] == [
        (setting, lmax) for setting in ("siso", "simo", "mimo") for lmax in (1, 2)
    ]
    assert price_of_freedom.comparison(runs[-1]).rows[0].milliseconds > 0
    for of_batch in record["fastest"].values():
        # Two features of degree 1 have no even path to degree 1.
        assert all(found[0].startswith("from L = ") for found in of_batch.values())
    with pytest.raises(SystemExit, match="exists"):
        price_of_freedom.main()

    def again(*_, **__):
        raise AssertionError("measured again")

    monkeypatch.setattr(price_of_freedom.tp, "compare", again)
    monkeypatch.setattr(sys, "argv", [*words, "--output", str(output), "--resume"])
    price_of_freedom.main()
    assert json.loads(output.read_text()) == record


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
