"""Figures of models of other libraries, before and after they are accelerated."""

from __future__ import annotations

from bench.claims.values import FIGURES, README, ends, runs
from bench.figures import Claim, record


def accelerated(model: str, circumstances: str = "") -> float:
    """Middle of repeated runs."""
    return float(record(f"interop_models_{model}{circumstances}")["ratio"])


def spread(model: str) -> tuple[float, float]:
    return ends(record(f"interop_models_{model}")["ratios"])


SYSTEMS = {"mace": "mace", "mace-hessian": "mace", "nequip": "nequip"}


def small(case: str, threads: int) -> float:
    name = f"small_systems_{SYSTEMS.get(case, 'gate_points')}"
    (run,) = runs(name, case=case, threads=threads)
    return float(run["times as fast"]["processor"]["after"])


def training(threads: int) -> list[float]:
    """Steps of training on forces, by the clock on the wall."""
    found = []
    for model in ("mace", "nequip"):
        name = f"training_steps_{model}"
        (run,) = runs(name, case=f"{model}-training", threads=threads)
        found.append(float(run["times as fast"]["wall"]["after"]))
    return found


def step_memory(model: str) -> list[float]:
    """Megabytes of an accelerated model and of the same as it was."""
    found = record(f"step_memory_{model}")["bytes"]
    return [found[way] / 1e6 for way in ("accelerated", "before")]


def molecules(threads: int) -> list[float]:
    gate_points = [small(name, threads) for name in ("gate_points_2101", "v2103", "v2106")]
    return [small("nequip", threads), small("mace", threads), *ends(gate_points)]


MODELS = [
    Claim(
        FIGURES,
        "NequIP 0.19, energy and forces of 500 atoms, two threads, middle of three runs (all) | {} "
        "({} to {}) |",
        lambda: [accelerated("nequip"), *spread("nequip")],
    ),
    Claim(
        FIGURES,
        "| MACE 0.3, the same | {} ({} to {}) |",
        lambda: [accelerated("mace"), *spread("mace")],
    ),
    Claim(
        FIGURES,
        "an allocator that keeps memory for both sides (`_memory_kept`) | {}, {} |",
        lambda: [accelerated(model, "_memory_kept") for model in ("nequip", "mace")],
    ),
    Claim(
        FIGURES,
        "32 ethanol molecules, MACE and NequIP, one thread | {}, {} |",
        lambda: training(1),
    ),
    Claim(FIGURES, "| the same step, two threads | {}, {} |", lambda: training(2)),
    Claim(
        FIGURES,
        "take {} MB of resident memory instead of {} with MACE, and {} instead of {} with NequIP",
        lambda: [*step_memory("mace"), *step_memory("nequip")],
    ),
    Claim(FIGURES, "models, one thread | {}, {}, {} to {} |", lambda: molecules(1)),
    Claim(FIGURES, "| the same, two threads | {}, {}, {} to {} |", lambda: molecules(2)),
    Claim(
        FIGURES,
        "own loop, one and two threads | {}, {} |",
        lambda: [small("mace-hessian", threads) for threads in (1, 2)],
    ),
    *(
        Claim(
            README,
            name + ", energy and forces | without `accelerate` | {}x |",
            lambda model=model: [accelerated(model)],
        )
        for name, model in (
            ("[MACE 0.3](docs/benchmarks.md#tensor-products)", "mace"),
            ("NequIP 0.19", "nequip"),
        )
    ),
    Claim(
        README,
        "memory for both sides, the models are {}x and {}x faster",
        lambda: [accelerated(model, "_memory_kept") for model in ("mace", "nequip")],
    ),
]  # fmt: skip
