"""Figures of models of other libraries, before and after they are accelerated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.claims.values import FIGURES, README, runs
from bench.figures import Claim, record


def accelerated(model: str, circumstances: str = "") -> float:
    """Middle of repeated runs."""
    return float(record(f"interop_models_{model}{circumstances}")["ratio"])


def small(case: str, threads: int) -> float:
    (run,) = runs(f"small_systems_{case.partition('-')[0]}", case=case, threads=threads)
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


def both(of: Callable[[str], float]) -> Callable[[], list[float]]:
    """A value of MACE and of NequIP."""
    return lambda: [of(model) for model in ("mace", "nequip")]


MODELS = [
    Claim(FIGURES, "two threads, median of three runs | {}x | {}x |", both(accelerated)),
    Claim(
        FIGURES,
        "keeps freed memory for both sides | {}x | {}x |",
        both(lambda model: accelerated(model, "_memory_kept")),
    ),
    Claim(FIGURES, "32 ethanol molecules, one thread | {}x | {}x |", lambda: training(1)),
    Claim(FIGURES, "| the same step, two threads | {}x | {}x |", lambda: training(2)),
    Claim(
        FIGURES,
        "take {} MB of resident memory instead of {} MB with MACE, and {} MB instead of {} MB with",
        lambda: [*step_memory("mace"), *step_memory("nequip")],
    ),
    Claim(FIGURES, "four ethanol molecules, one thread | {}x | {}x |", both(partial(small, threads=1))),
    Claim(FIGURES, "four ethanol molecules, two threads | {}x | {}x |", both(partial(small, threads=2))),
    Claim(
        FIGURES,
        "The Hessian of 9 atoms is {}x faster than MACE's own loop on one thread",
        lambda: [small("mace-hessian", 1)],
    ),
    *(
        Claim(
            README,
            name + ", energy and forces | without `accelerate` | {}x |",
            lambda model=model: [accelerated(model)],
        )
        for name, model in (
            ("[MACE 0.3](docs/benchmarks.md#accelerated-models)", "mace"),
            ("NequIP 0.19", "nequip"),
        )
    ),
    Claim(
        README,
        "memory for both sides, the models are {}x and {}x faster",
        lambda: [accelerated(model, "_memory_kept") for model in ("mace", "nequip")],
    ),
]  # fmt: skip
