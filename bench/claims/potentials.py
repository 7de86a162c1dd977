"""Figures of neighbour lists, interatomic potentials and convolutions by orders."""

from __future__ import annotations

from functools import cache
from typing import Any

from bench.claims.values import FIGURES, ends, rows, runs
from bench.figures import Claim, record


@cache
def neighbors(atoms: int) -> dict[str, float]:
    (row,) = [r for r in rows("neighbors", periodic=True) if int(r["atoms"]) == atoms]
    found: dict[str, float] = row["milliseconds of the processor, least"]
    return found


def potential(subset: str, minutes: float, threads: int = 1) -> Any:
    """The last run of these settings."""
    *_, found = (
        run
        for run in runs("potentials", threads=threads)
        if run["train"]["subset"] == subset and run["train"]["recipe"]["minutes"] == minutes
    )
    return found


def compiled(name: str) -> Any:
    return record("compiled_step")["sets"][name]


def test_error(run: Any, name: str) -> float:
    return float(run["errors"]["test"][name])


def convolution(edges: int, lmax: int) -> list[float]:
    found = rows("so2_conv", "fairchem-core 2.24.0", edges=edges, lmax=lmax)
    return [row[name]["ratio"] for row in found for name in ("forward", "both passes")]


def against_channelwise(lmax: int) -> float:
    (row,) = rows("so2_conv", "crossover", lmax=lmax)
    times = row["both passes"]
    return float(times["channelwise and Linear"] / times["so2, mmax 2"])


POTENTIALS = [
    Claim(
        FIGURES,
        "{} s through scipy; vesin and matscipy, which neither sort nor validate, take {} s and {} s",
        lambda: [
            neighbors(97_556)[name] / 1e3 for name in ("scipy", "vesin alone", "matscipy alone")
        ],
    ),
    Claim(
        FIGURES,
        "vesin is {}x faster than the search through scipy",
        lambda: [neighbors(108)["scipy"] / neighbors(108)["vesin alone"]],
    ),
    *(
        Claim(
            FIGURES,
            f"| {name}, 950 frames, official test frames | {how} | {{}} | {{}} | {{}} | {{}} |",
            lambda name=name, minutes=minutes, threads=threads: [
                minutes,
                potential(name, minutes, threads)["milliseconds per step"],
                *(
                    test_error(potential(name, minutes, threads), f"{what} MAE ({unit})")
                    for what, unit in (("force", "meV/A"), ("energy", "meV"))
                ),
            ],
        )
        for name, how, minutes, threads in (
            ("ethanol", "two threads", 15.0, 2),
            ("aspirin", "one thread, `--compile`", 40.0, 1),
        )
    ),
    Claim(
        FIGURES,
        "without a thermostat drift by {} meV/atom/ps in float64",
        lambda: [runs("potential_dynamics")[0]["drift (meV/atom/ps)"]],
    ),
    Claim(
        FIGURES,
        "makes a training step {}x (ethanol) and {}x (aspirin) faster",
        lambda: [compiled(name)["times as fast"] for name in ("ethanol", "aspirin")],
    ),
    Claim(
        FIGURES,
        "trained at 300 K for {} minutes, has root mean square errors of forces of {} (300 K), {} "
        "(600 K) and {} meV/A (1200 K)",
        lambda: [
            runs("potentials_3bpa")[0]["train"]["recipe"]["minutes"],
            *(
                runs("potentials_3bpa")[0]["errors"][name]["force RMSE (meV/A)"]
                for name in ("300 K", "600 K", "1200 K")
            ),
        ],
    ),
    Claim(
        FIGURES,
        "| equigeo, default preset | {} | about {} | {} |",
        lambda: [
            potential("ethanol", 5.0)["parameters"],
            (1e3 * 300 / potential("ethanol", 5.0)["milliseconds per step"], 100),
            test_error(potential("ethanol", 5.0), "force MAE (meV/A)"),
        ],
    ),
    *(
        Claim(
            FIGURES,
            f"| {peer} | {{}} | {{}} | {{}} |",
            lambda peer=peer: [
                *(runs("potential_peers", peer=peer)[0][name] for name in ("parameters", "steps")),
                test_error(runs("potential_peers", peer=peer)[0], "force MAE (meV/A)"),
            ],
        )
        for peer in ("mace", "nequip")
    ),
    *(
        Claim(
            FIGURES,
            f"| ({lmax}, 2) | " + " | ".join(["{}x / {}x"] * 4) + " |",
            lambda lmax=lmax: convolution(8192, lmax),
        )
        for lmax in (2, 4, 6)
    ),
    Claim(
        FIGURES,
        "smaller with 2,048 edges: {}x to {}x for forward and backward",
        lambda: ends(x for lmax in (2, 4, 6) for x in convolution(2048, lmax)[1::2]),
    ),
    Claim(
        FIGURES,
        "is slower at L = 2 ({}x) and faster at L = 4 and 6 ({}x and {}x)",
        lambda: [against_channelwise(lmax) for lmax in (2, 4, 6)],
    ),
]  # fmt: skip
