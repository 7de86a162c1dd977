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


def accuracies(name: str) -> list[float]:
    return percent(run["accuracy"] for run in runs(name))


def split16() -> list[float]:
    """Of the default preset, seeds 0 to 4."""
    return accuracies("shrec11_split16_multiscale") + accuracies("shrec11_split16_multiscale_later")


def split(name: str) -> float:
    return float(runs(name)[0]["settings"]["train"]["split"])


def ablation(name: str) -> list[float]:
    return percent(run["accuracy"] for run in runs(f"ablation/{name}"))


def scale(case: str, faces: int = 1_002_528) -> Any:
    return rows("mesh_scale", allocator="as is", case=case, faces=faces)[0]


def per_face(case: str) -> list[float]:
    found = rows("mesh_scale", allocator="as is", case=case)
    return [row["microseconds a face"] for row in found] + [scale(case)["seconds, median"]]


def attention(implementation: str) -> float:
    name = f"bench_segment_attention[{implementation}-12000-1-32-forward and backward-1 thread]"
    (found,) = rows("segment_attention", "benchmarks", name=name)
    return 1e3 * found["stats"]["median"]


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
            *cubes("engraved_cubes_paper"), *accuracies("engraved_cubes_default_16_epochs")
        ],
    ),
    Claim(
        FIGURES,
        "PD-MeshNet's features tells {} to {} %, and {} to {} % on those of the default preset",
        lambda: linear("paper") + linear("default"),
    ),
    Claim(
        FIGURES,
        "seeds 0 to 4 of split 16 give {} % ({} for seed 3, one mesh of {}, else {};",
        lambda: [
            mean(split16()), split16()[3],
            runs("shrec11_split16_multiscale_later", seed=3)[0]["test meshes"],
            mean(split16()[:3] + split16()[4:]),
        ],
    ),
    Claim(
        FIGURES,
        "draws 0 to 9 of split 10 {} % ({}, four times {} and five times {}, at one commit;",
        lambda: [
            mean(accuracies("shrec11_split10_multiscale")),
            *(sorted(accuracies("shrec11_split10_multiscale"))[place] for place in (0, 1, 5)),
        ],
    ),
    Claim(
        FIGURES,
        "draws 0 to 2 give {} % ({}, {}, {}; `shrec11_split5_default.json`), where the `paper` preset "
        "has {} % on draw 0 (`shrec11_split5_paper.json`)",
        lambda: [
            mean(accuracies("shrec11_split5_default")), *accuracies("shrec11_split5_default"),
            *accuracies("shrec11_split5_paper"),
        ],
    ),
    Claim(
        FIGURES,
        "| `default` | {} | seeds 0 to 4 | {} % ({} of {}) | {} | {} epochs, {} s ({} threads) |",
        lambda: [
            split("shrec11_split16_default"),
            mean(accuracies("shrec11_split16_default")),
            sum(r["accuracy"] * r["test meshes"] for r in runs("shrec11_split16_default")),
            sum(run["test meshes"] for run in runs("shrec11_split16_default")),
            runs("shrec11_split16_default")[0]["parameters"],
            runs("shrec11_timing")[0]["epochs"], runs("shrec11_timing")[0]["training seconds"],
            runs("shrec11_timing")[0]["threads"],
        ],
    ),
    Claim(
        FIGURES,
        "| `default` | {} | draws 0 to 4 | {} % ({}, {}, {}, {}, {}) | {} | {} epochs |",
        lambda: [
            split("shrec11_split10_default"),
            mean(accuracies("shrec11_split10_default")),
            *accuracies("shrec11_split10_default"),
            runs("shrec11_split10_default")[0]["parameters"],
            runs("shrec11_split10_default")[0]["epochs"],
        ],
    ),
    Claim(
        FIGURES,
        "| `paper` | {} | seed 0 | {} % | {} | {} epochs, {} s on one thread of a busy machine "
        "(median epoch {} s) |",
        lambda: [
            split("shrec11_split16_paper"),
            *accuracies("shrec11_split16_paper"),
            *(
                runs("shrec11_split16_paper")[0][name]
                for name in (
                    "parameters", "epochs", "seconds of this session", "seconds per epoch"
                )
            ),
        ],
    ),
    Claim(
        FIGURES,
        "probabilities moved by at most {}.",
        lambda: [
            max(
                max(run["largest change of a probability"].values())
                for name in ("shrec11_split16_default", "shrec11_split10_default")
                for run in runs(name)
            )
        ],
    ),
    Claim(
        FIGURES,
        "{} of its {} predictions change under reflection",
        lambda: [
            runs("shrec11_split16_paper")[0]["predictions changed"]["reflected"],
            runs("shrec11_split16_paper")[0]["test meshes"],
        ],
    ),
    Claim(
        FIGURES,
        "draws 5 and 6, {} test meshes each, where one mesh is {} %",
        lambda: [
            runs("ablation/as_preset")[0]["test meshes"],
            100 / runs("ablation/as_preset")[0]["test meshes"],
        ],
    ),
    Claim(FIGURES, "| the preset | {} % | {} % |", lambda: ablation("as_preset")),
    Claim(FIGURES, "| without pooling | {} % | {} % |", lambda: ablation("without_pooling")),
    Claim(FIGURES, "| pooling twice | {} % | {} % |", lambda: ablation("pooling_twice")),
    Claim(
        FIGURES,
        "| a plain mean instead of attention | {} % | {} % |",
        lambda: ablation("mean_instead_of_attention"),
    ),
    Claim(
        FIGURES,
        "| a path from the primal to the dual stream | {} % | {} % |",
        lambda: ablation("primal_to_dual_coupling"),
    ),
    Claim(
        FIGURES,
        "| read-out of the dual stream alone | {} % | {} % |",
        lambda: ablation("dual_read_out"),
    ),
    Claim(
        FIGURES,
        "| read-out of the primal stream alone | {} % | {} % |",
        lambda: ablation("primal_read_out"),
    ),
    Claim(
        FIGURES, "| PD-MeshNet's features | {} % | {} % |", lambda: ablation("reference_features")
    ),
    Claim(FIGURES, "| without jitter | {} % | {} % |", lambda: ablation("without_jitter")),
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
        "(`shrec11_timing.json`) | median {} s |",
        lambda: [runs("shrec11_timing")[0]["seconds per epoch"]],
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
        "| {} ms; PyTorch Geometric's softmax and scatter {} ms, the reference implementation {} ms |",
        lambda: [attention(name) for name in ("op", "geometric", "reference")],
    ),
    Claim(
        "docs/tutorials/mesh.py",
        "a million faces in {} s and {} GiB",
        lambda: [scale("classifier")["seconds, median"], scale("classifier")["peak GiB"]],
    ),
    Claim(
        README,
        "split 16, five seeds; split 10, ten draws | {} %; {} % |",
        lambda: [mean(split16()), mean(accuracies("shrec11_split10_multiscale"))],
    ),
    Claim(
        README,
        "classifier forward and backward | {} s, {} GiB |",
        lambda: [scale("classifier")["seconds, median"], scale("classifier")["peak GiB"]],
    ),
]  # fmt: skip
