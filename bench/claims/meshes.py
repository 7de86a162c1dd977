"""Figures of meshes: classification, segmentation, large and broken ones."""

from __future__ import annotations

from functools import partial
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
        "| the classifier, `recompute_blocks` | {}, {}, {} | {} s, {} GiB |",
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
