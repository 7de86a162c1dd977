"""Scripts of benchmarks run on small problems, and what they compute beside times."""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bench import modelnet10, robust_clouds, robustness_peers
from bench.figures import of_ratio
from bench.modelnet10 import VARIANTS, other_network, run_config
from bench.op_calls import CASES, ON_THE_CPU, Size, all_calls
from bench.recorder import REPOSITORY, plain
from bench.robustness_peers import compare, totals
from bench.rooflines import ARITHMETIC, BANDWIDTH, summarized
from bench.schema import problems
from equigeo.datasets import engraved_cubes, split_indices
from equigeo.groups import SO
from equigeo.mesh import PrimalDualGraph
from equigeo.ops.runtime.declare import SCHEMAS
from tests.bench.test_arithmetic import WITHOUT_KERNELS
from tests.mesh import shapes
from tests.tasks.potential.frames import write

# Options of a small run, and what its record has, or the first of its runs or rows.
SCRIPTS = {
    "mesh_dynamics": (
        "--equations sheet --faces 32 --trajectories 2 --test-trajectories 1 --minutes 0.02 "
        "--work {work}",
        {"network", "errors", "parameters", "epochs"},
    ),
    "mesh_resolution": (
        "--data {data}/shapes.npz --runs 1 --epochs 1 --work {work}", {"test shapes", "accuracy"}
    ),
    "mesh_segmentation": (
        "--per-class 2 --runs 1 --epochs 1 --work {work}", {"mean", "faces", "parameters"}
    ),
    "price_of_freedom": (
        "--lmax 2 --batches 3 --repetitions 2", {"fastest", "setting", "comparison"}
    ),
    "potentials": (
        "--data {data} --set ethanol --minutes 0.01 --threads 1 --channels 4 --lmax-edge 1 "
        "--work {work}",
        {"parameters", "errors", "history", "threads"},
    ),
    "robust_clouds": (
        "--data {data} --draws 1 --every 10 --kinds skew weighted --steps 1",
        {"kind", "changes", "threshold"},
    ),
    "modelnet10": (
        "--data {data} --network vector-neurons --epochs 1 --points 300 --work {work}",
        {"accuracy", "equal predictions", "epochs", "history"},
    ),
    "rooflines": ("--edges 8 --rounds 1", {"machine", "op", "seconds"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder with 24 small meshes, with frames of ethanol and with twenty clouds."""
    folder = tmp_path_factory.mktemp("data")
    meshes = [shapes.turned(shapes.lumpy(shapes.icosphere(1), seed=k % 2), k) for k in range(24)]
    np.savez(
        folder / "shapes.npz",
        vertices=np.concatenate([m.vertices.numpy() for m in meshes]),
        faces=np.concatenate([m.faces.numpy() for m in meshes]),
        vertex_offset=np.cumsum([0, *(m.num_vertices for m in meshes)]),
        face_offset=np.cumsum([0, *(m.num_faces for m in meshes)]),
        label=np.arange(24) % 2,
    )
    write(folder / "rmd17", train=60)
    points = np.random.default_rng(0).integers(0, 180, (20, 300, 3)) ** 2 // [[[1, 2, 4]]]
    clouds = {"points": points.astype(np.int16), "label": np.arange(20, dtype=np.uint8) % 10}
    for name in ("train", "test_a"):
        np.savez(folder / f"modelnet10_{name}.npz", **clouds, classes=np.array(list("abcdefghij")))
    return folder


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_records_a_small_run(name, data, tmp_path):
    words, expected = SCRIPTS[name]
    output = tmp_path / "record.json"
    options = words.format(data=data, work=tmp_path / "work").split()
    command = [sys.executable, "-m", f"bench.{name}", *options, "--output", str(output)]
    environment = {**os.environ, "EQUIGEO_CACHE": str(tmp_path / "cache")}
    subprocess.run(command, check=True, cwd=REPOSITORY, env=environment, timeout=1200)
    record = json.loads(output.read_text())
    assert list(problems(record)) == []
    first = (record.get("runs") or record.get("rows"))[0]
    assert expected <= record.keys() | first.keys()


def pooled_features(graphs):
    """Means and maxima over the nodes of each graph, (graphs, features), float64."""
    nodes = [[graph.x_primal.double(), graph.x_dual.double()] for graph in graphs]
    pools = [[pool for x in pair for pool in (x.mean(0), x.amax(0))] for pair in nodes]
    return torch.stack([torch.cat(each) for each in pools])


def linear_accuracy(features, labels, train, test, ridge):
    """Accuracy of ridge regression to indicators of the classes, on standardized features."""
    scale = features[train].std(dim=0)
    x = (features - features[train].mean(dim=0)) / torch.where(scale > 0, scale, 1.0)
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    y = torch.nn.functional.one_hot(labels[train]).to(x.dtype)
    gram = x[train].T @ x[train] + ridge * torch.eye(x.shape[1], dtype=x.dtype)
    predicted = (x[test] @ torch.linalg.solve(gram, x[train].T @ y)).argmax(dim=1)
    return (predicted == labels[test]).double().mean().item()


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
            assert plain({"settings": settings}) == plain(VARIANTS[variant]["network"])
            assert (model.config.group is None) == (network == "plain")


def test_accuracies_of_runs_are_measured_on_clouds_that_are_changed_alike(
    data, tmp_path, monkeypatch
):
    small = {"groups": (8, 4), "neighbors": 4, "widths": ((8,), (8,)), "features": 16}
    monkeypatch.setitem(VARIANTS, "small", {"network": {"settings": small}})
    words = "--epochs 1 --points 64 --work".split()
    for network, variant in (
        ("mds", "small"), ("frame-averaging", "small"), ("vector-neurons", "as preset"),
        ("plain", "small"),
    ):  # fmt: skip
        given = ["--data", str(data), *words, str(tmp_path), "--network", network]
        output = str(tmp_path / f"{network}.json")
        command = ["modelnet10", *given, "--variant", variant, "--output", output]
        monkeypatch.setattr(sys, "argv", command)
        modelnet10.main()
    folders = [str(path.parent) for path in sorted(tmp_path.glob("*/*/model.ckpt"))]
    output = tmp_path / "accuracy.json"
    words = ["--draws", "2", "--kinds", "skew", "weighted, robust", "--output", str(output)]
    command = ["robust_clouds", "--data", str(data), *words, "--accuracy", *folders]
    monkeypatch.setattr(sys, "argv", command)
    robust_clouds.main()
    record = json.loads(output.read_text())
    assert list(problems(record)) == []
    names = [(Path(run["run"]).name, run["kind"]) for run in record["runs"]]
    found = dict(zip(names, (run["accuracy"] for run in record["runs"]), strict=True))
    names = ["frame-averaging-small-0", "plain-small-0", "vector-neurons-as-preset-0"]
    own = [(name, "as trained") for name in names]
    kinds = [("mds-small-0", kind) for kind in ("skew", "weighted, robust")]
    assert set(found) == {*own, *kinds}
    for key, accuracy in found.items():
        assert set(accuracy) == ({"rotated"} if key in kinds else {"rotated", "upright"})
        for by_change in accuracy.values():
            assert list(by_change) == ["none", *robust_clouds.CHANGES]
            shares = [40 * share for share in by_change.values()]  # 20 clouds, two draws
            assert shares == pytest.approx([round(share) for share in shares])
    for name in (names[0], names[2]):
        assert found[name, "as trained"]["rotated"] == found[name, "as trained"]["upright"]


def test_the_baseline_of_vectors_is_invariant_under_rotations_alone():
    torch.manual_seed(0)
    network, x = modelnet10.Neurons(10).double().eval(), torch.randn(3, 200, 3).double()
    rotation = SO(3).sample(1, generator=torch.Generator().manual_seed(0))
    logits = network(x)
    torch.testing.assert_close(network(x @ rotation[0].mT), logits)
    assert not torch.allclose(network(x * torch.tensor([1, 1, 2])), logits)


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
