"""Figures of meshes: classification, segmentation, large and broken ones."""

from __future__ import annotations

from statistics import mean
from typing import Any

from bench.claims.values import FIGURES, README, percent, rows, runs
from bench.figures import Claim, record


def resolution(faces: str) -> list[float]:
    found = percent(run["accuracy"][faces] for run in runs("mesh_resolution"))
    return [mean(found), *found]


def part(variant: str) -> list[float]:
    """Of a variant, by the faces of the test shapes."""
    (run,) = runs("mesh_resolution_parts", variant=variant, seed=0)
    return percent(run["accuracy"][faces] for faces in ("1000", "500", "2500"))


def segmentation(measure: str) -> list[float]:
    return percent(record("mesh_segmentation")["mean"][faces][measure] for faces in ("500", "250"))


def crowded(way: str, what: str) -> float:
    return float(record("robustness_peers")["totals"][way][what])


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
    Claim(
        FIGURES,
        "accuracies are {} % (1,000 faces), {} % (500) and {} % (2,500)",
        lambda: part("features of one ring"),
    ),
    Claim(
        FIGURES,
        "default preset, {} parameters (`mesh_segmentation.json`)",
        lambda: [runs("mesh_segmentation")[0]["parameters"]],
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
        "{} files have edges of more than two faces, with {} triangles after welding "
        "(`robustness_peers.json`). Splitting keeps all triangles and {} pairs of adjacent faces; "
        "`igl.split_nonmanifold` keeps all triangles and {} pairs",
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
        "10^6 faces are built in {} s",
        lambda: [rows("large_mesh", dual="single")[0]["seconds, median"]],
    ),
    Claim(
        FIGURES,
        "sound files among {} real ones and raises a named error for {} files without a usable face",
        lambda: [
            record("robustness_corpus")["files"],
            record("robustness_corpus")["files"] - record("robustness_corpus")["loaded"],
        ],
    ),
    Claim(
        FIGURES,
        "on one thread, takes {} ms; PyTorch Geometric's softmax and scatter take {} ms",
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
