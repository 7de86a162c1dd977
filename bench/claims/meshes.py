"""Figures of meshes: classification, segmentation, large and broken ones."""

from __future__ import annotations

from functools import partial
from itertools import chain
from statistics import mean
from typing import Any

from bench.claims.values import FIGURES, README, ends, percent, rows, runs
from bench.figures import Claim, record


def resolution(faces: str) -> list[float]:
    found = percent(run["accuracy"][faces] for run in runs("mesh_resolution"))
    return [mean(found), *found]


def part(variant: str) -> list[float]:
    """Of a variant, by the faces of the test shapes."""
    (run,) = runs("mesh_resolution_parts", variant=variant, seed=0)
    return percent(run["accuracy"][faces] for faces in ("1000", "500", "2500"))


PARTS = {
    "the default preset": "default",
    "means not weighted by area": "means not weighted by area",
    "shapes of 500 and 2,500 faces in training too": "two resolutions in training",
    "features of one ring": "features of one ring",
}


def cubes(record_name: str) -> list[float]:
    (run,) = runs(record_name)
    return [run["parameters"], 100 * run["accuracy"]]


def epoch(threads: int, pair: str = "default presets") -> float:
    """How many times as long an epoch of 0.1.0 takes."""
    name = "mesh_epoch" if threads == 1 else "mesh_epoch_2_threads"
    return float(rows(name, "pairs", pair=pair)[0]["times as fast"]["seconds"])


def beyond(variant: str, *seeds: int) -> list[float]:
    found = [runs("mesh_beyond", variant=variant, seed=seed)[0] for seed in seeds]
    counts = [run["accuracy"]["1000"] * run["evaluated shapes"] for run in found]
    pairs = [[right, run["evaluated shapes"]] for right, run in zip(counts, found, strict=True)]
    return [*chain.from_iterable(pairs), found[0]["parameters"]]


def segmentation(measure: str) -> list[float]:
    return percent(record("mesh_segmentation")["mean"][faces][measure] for faces in ("500", "250"))


def crowded(way: str, what: str) -> float:
    return float(record("robustness_peers")["totals"][way][what])


def linear(features: str) -> list[float]:
    found = runs("engraved_cubes_linear")[0]["accuracy by ridge"][f"features of {features}"]
    return percent(ends(found.values()))


def scale(case: str, faces: int = 1_002_528) -> Any:
    return rows("mesh_scale", allocator="as is", case=case, faces=faces)[0]


def per_face(case: str) -> list[float]:
    found = rows("mesh_scale", allocator="as is", case=case)
    return [row["microseconds a face"] for row in found] + [scale(case)["seconds, median"]]


def attention() -> list[float]:
    """Milliseconds of ours and of PyTorch Geometric."""
    pairs = record("short_intel-xeon-processor_avx512_2-cores")["pairs"]
    found = pairs["segment_attention, forward and backward, against geometric"]
    return [1e3 * found["median seconds"][side] for side in ("ours", "peer")]


MESHES = [
    Claim(FIGURES, "| 1,000 | {} % | {}, {}, {} |", lambda: resolution("1000")),
    Claim(FIGURES, "| 500 | {} % | {}, {}, {} |", lambda: resolution("500")),
    Claim(FIGURES, "| 2,500 | {} % | {}, {}, {} |", lambda: resolution("2500")),
    *(
        Claim(FIGURES, f"| {words} | {{}} % | {{}} % | {{}} % |", partial(part, variant))
        for words, variant in PARTS.items()
    ),
    Claim(
        FIGURES, "| nothing | {} of {} | {} of {} | {} |", lambda: beyond("default", 0, 1)
    ),
    Claim(
        FIGURES,
        "| vectors that turn with the mesh, in the first block | {} of {} | {} of {} | {} |",
        lambda: beyond("vectors in the first block", 0, 1),
    ),
    Claim(
        FIGURES,
        "4 tokens, behind the pooling | {} of {} | not run | {} |",
        lambda: beyond("one block of attention within 2 hops", 0),
    ),
    Claim(
        FIGURES,
        "an epoch took {} to {} s without, {} to {} s with either",
        lambda: [
            *ends(run["seconds per epoch"] for run in runs("mesh_beyond", variant="default")),
            *ends(r["seconds per epoch"] for r in runs("mesh_beyond") if r["variant"] != "default"),
        ],
    ),
    Claim(
        FIGURES,
        "({} parameters, {} epochs of {} to {} s on one thread; `bench/mesh_segmentation.py`",
        lambda: [
            runs("mesh_segmentation")[0]["parameters"],
            runs("mesh_segmentation")[0]["train"]["recipe"]["epochs"],
            *ends(run["seconds per epoch"] for run in runs("mesh_segmentation")),
        ],
    ),
    Claim(
        FIGURES,
        "| face accuracy by area, mean over meshes | {} % | {} % |",
        lambda: segmentation("face accuracy by area, mean over meshes"),
    ),
    Claim(FIGURES, "| face accuracy | {} % | {} % |", lambda: segmentation("face accuracy")),
    Claim(
        FIGURES,
        "| mean IoU over parts, by faces | {} % | {} % |",
        lambda: segmentation("mean IoU over parts, by faces"),
    ),
    Claim(
        FIGURES,
        "{} files, {} triangles after welding (`bench/results/robustness_peers.json`): the cut keeps "
        "all of them and {} pairs of neighbours; `igl.split_nonmanifold` keeps all and {} pairs",
        lambda: [
            record("robustness_peers")["files"], crowded("welded", "faces"),
            crowded("equigeo cut", "pairs"), crowded("libigl split_nonmanifold", "pairs"),
        ],
    ),
    Claim(
        FIGURES,
        "removal of faces loses {} % of the triangles",
        lambda: [
            100 - 100 * crowded("pymeshlab remove faces", "faces") / crowded("welded", "faces")
        ],
    ),
    Claim(
        FIGURES,
        "default preset with {} parameters tells {} % of the test meshes after the",
        lambda: cubes("engraved_cubes_default"),
    ),
    Claim(
        FIGURES,
        "of its recipe, {} s to {} s each on one thread",
        lambda: ends(line["seconds"] for line in runs("engraved_cubes_default")[0]["history"]),
    ),
    Claim(
        FIGURES,
        "`paper` preset with {} parameters tells {} %, the default preset {} %",
        lambda: [
            *cubes("engraved_cubes_paper"), cubes("engraved_cubes_default_16_epochs")[1]
        ],
    ),
    Claim(
        FIGURES,
        "PD-MeshNet's features tells {} to {} %, and {} to {} % on those of the default preset",
        lambda: linear("paper") + linear("default"),
    ),
    Claim(
        FIGURES,
        "({} GiB while they are built)",
        lambda: [scale("classifier")["GiB before"]],
    ),
    Claim(
        FIGURES,
        "| one block | {}, {}, {} | {} s, {} GiB |",
        lambda: [*per_face("default block"), scale("default block")["peak GiB"]],
    ),
    Claim(
        FIGURES,
        "| the classifier | {}, {}, {} | {} s, {} GiB |",
        lambda: [*per_face("classifier"), scale("classifier")["peak GiB"]],
    ),
    Claim(
        FIGURES,
        "| the classifier, `checkpoint_blocks` | {}, {}, {} | {} s, {} GiB |",
        lambda: [
            *per_face("classifier, checkpointed"),
            scale("classifier, checkpointed")["peak GiB"],
        ],
    ),
    Claim(
        FIGURES,
        "| pooling to half the faces | {}, {}, {} | {} s |",
        lambda: per_face("pooling to half"),
    ),
    Claim(
        FIGURES,
        "an epoch of SHREC'11 against version 0.1.0, default presets, one thread and two | {} and {} "
        "times as fast; {} the same network and features, one thread |",
        lambda: [epoch(1), epoch(2), epoch(1, "settings of 0.1.0")],
    ),
    Claim(
        FIGURES,
        "| {} s, peak {} GiB for the process, PyTorch and the mesh ({} GiB) included |",
        lambda: [
            rows("large_mesh", dual="single")[0][name]
            for name in ("seconds, median", "peak GiB", "GiB before")
        ],
    ),
    Claim(
        FIGURES,
        "expected triangles; {} files without a usable face refused by name; slowest file {} s,",
        lambda: [
            record("robustness_corpus")["files"] - record("robustness_corpus")["loaded"],
            max(row["seconds"] for row in rows("robustness_corpus", "outcomes")),
        ],
    ),
    Claim(
        FIGURES,
        "32 channels, one thread | {} ms; PyTorch Geometric's softmax and scatter {} ms |",
        attention,
    ),
    Claim(
        "docs/tutorials/mesh.py",
        "a million faces in {} s and {} GiB",
        lambda: [scale("classifier")["seconds, median"], scale("classifier")["peak GiB"]],
    ),
    Claim(
        README,
        "take {} s and {} GiB",
        lambda: [scale("classifier")["seconds, median"], scale("classifier")["peak GiB"]],
    ),
]  # fmt: skip
