"""Figures of neighbour lists, interatomic potentials and convolutions by orders."""

from __future__ import annotations

from functools import cache
from statistics import mean
from typing import Any, get_args

from bench.claims.values import FIGURES, ends, rows, runs
from bench.figures import Claim, record
from equigeo.potentials.config import ProductName


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


# Columns of the second table: sets on which each product was trained, and the frames of the errors.
OTHER_SETS = [
    ("aspirin", "test"), ("3BPA", "300 K"), ("3BPA", "600 K"), ("3BPA", "1200 K"), ("Si", "test"),
]  # fmt: skip
PRODUCT_SETS = ("ethanol", *dict(OTHER_SETS))


def product(name: str, subset: str = "ethanol") -> list[Any]:
    """Runs of the three seeds."""
    found = runs(f"potential_products_{subset}")
    found = [run for run in found if run["train"]["product"] == name]
    assert [run["train"]["seed"] for run in found] == [0, 1, 2]
    assert {run["train"]["recipe"]["minutes"] for run in found} == {1.0}
    return found


def product_row(name: str) -> list[float]:
    """Channels, parameters, expressivity, milliseconds a step, and errors on each set."""
    found = product(name)
    return [
        found[0]["train"]["channels"],
        found[0]["parameters"],
        *expressivity(name),
        mean(run["milliseconds per step"] for run in found),
        *product_errors(name, "ethanol", "test"),
    ]


def product_errors(name: str, subset: str, frames: str) -> list[float]:
    """Mean, least and greatest of the seeds."""
    errors = [run["errors"][frames]["force MAE (meV/A)"] for run in product(name, subset)]
    return [mean(errors), *ends(errors)]


def expressivity(name: str) -> list[float]:
    """Maps of one channel, and the share that all channels of the trained potentials reach."""
    (found,) = runs("potential_expressivity", product=name)
    for subset in PRODUCT_SETS:
        trained = [run["train"] for run in product(name, subset)]
        assert {run["channels"] for run in trained} == {found["channels"]}
        assert {run["lmax_edge"] for run in trained} == {found["lmax_edge"]}
    return [found["one channel"][-1]["maps"], 100 * found["all channels"][-1]["share"]]


def gaunt_step(lmax: int, node: str) -> dict[str, float]:
    """Milliseconds of a training step by each method."""
    (run,) = runs("potential_gaunt_methods", lmax_edge=lmax, node=node)
    found: dict[str, float] = run["milliseconds"]
    return found


def fourier_against(method: str) -> tuple[float, float]:
    """How many times as long as with another method a step takes, least and greatest."""
    steps = [gaunt_step(run["lmax_edge"], run["node"]) for run in runs("potential_gaunt_methods")]
    return ends(step["fourier"] / step[method] for step in steps)


def compiled(name: str) -> Any:
    return record("compiled_step")["sets"][name]


def hessians() -> Any:
    return record("hessian")["potentials"]


def test_error(run: Any, name: str) -> float:
    return float(run["errors"]["test"][name])


def convolution(edges: int, lmax: int) -> list[float]:
    found = rows("so2_conv", "fairchem-core 2.24.0", edges=edges, lmax=lmax)
    return [row[name]["ratio"] for row in found for name in ("forward", "both passes")]


def against_channelwise(lmax: int) -> float:
    (row,) = rows("so2_conv", "crossover", lmax=lmax)
    times = row["both passes"]
    return float(times["channelwise and Linear"] / times["so2, mmax 2"])


def convolution_memory(edges: int, lmax: int) -> float:
    part = "bytes beside inputs, results and gradients"
    return float(rows("so2_conv", part, edges=edges, lmax=lmax)[0]["ratio"])


POTENTIALS = [
    Claim(
        FIGURES,
        "vectors: {} through scipy; vesin and matscipy, without order and checks, take {} and {}.",
        lambda: [
            neighbors(97_556)[name] / 1e3 for name in ("scipy", "vesin alone", "matscipy alone")
        ],
    ),
    Claim(
        FIGURES,
        "cell the search through scipy takes {} times as long as vesin",
        lambda: [neighbors(108)["scipy"] / neighbors(108)["vesin alone"]],
    ),
    Claim(
        FIGURES,
        "symmetric contraction, {} to {} parameters",
        lambda: ends(run["parameters"] for run in runs("potentials")),
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
    *(
        Claim(
            FIGURES,
            f"| `{name}` | {{}} | {{}} | {{}} | {{}} % | {{}} | {{}} ({{}} to {{}}) |",
            lambda name=name: product_row(name),
        )
        for name in get_args(ProductName)
    ),
    *(
        Claim(
            FIGURES,
            f"| `{name}` |" + " {} ({} to {}) |" * len(OTHER_SETS),
            lambda name=name: [
                number for column in OTHER_SETS for number in product_errors(name, *column)
            ],
        )
        for name in get_args(ProductName)
    ),
    Claim(
        FIGURES,
        "of all that rotations allow, {} for each pair of channels",
        lambda: [*{
            run["one channel"][-1]["maps that rotations allow"]
            for run in runs("potential_expressivity")
        }],
    ),
    *(
        Claim(
            FIGURES,
            f"| l = {lmax}, `{node}` | {{}} | {{}} | {{}} | {{}} |",
            lambda lmax=lmax, node=node: [
                gaunt_step(lmax, node)[method]
                for method in ("grid", "grid in PyTorch", "paths", "fourier")
            ],
        )
        for lmax, node in ((2, "contraction"), (2, "gaunt"), (4, "gaunt"), (6, "gaunt"))
    ),
    Claim(
        FIGURES,
        "a step by Fourier series takes {} to {} times as long as one on the grid, and {} to {} times "
        "as long as on the grid without its kernel",
        lambda: [*fourier_against("grid"), *fourier_against("grid in PyTorch")],
    ),
    Claim(
        FIGURES,
        "Ten picoseconds of ethanol in steps of {} fs without a thermostat: the total energy drifts by "
        "{} meV/atom/ps in float64 and {} in float32",
        lambda: [
            runs("potential_dynamics")[0]["step (fs)"],
            *(run["drift (meV/atom/ps)"] for run in runs("potential_dynamics")),
        ],
    ),
    Claim(
        FIGURES,
        "A training step of five frames on one thread takes {} ms of the processor for ethanol and {} "
        "for aspirin, compiled {} and {}: {} and {} times as fast",
        lambda: [
            *(1e3 * compiled(name)["median seconds"]["eager"] for name in ("ethanol", "aspirin")),
            *(1e3 * compiled(name)["median seconds"]["compiled"] for name in ("ethanol", "aspirin")),
            *(compiled(name)["times as fast"] for name in ("ethanol", "aspirin")),
        ],
    ),
    Claim(
        FIGURES,
        "24 atoms with {} edges, rows in chunks are {}, {} and {} times as fast as row by row",
        lambda: [
            next(iter(hessians().values()))["edges"],
            *(row["times as fast as row by row"]["chunks by default"] for row in hessians().values()),
        ],
    ),
    Claim(
        FIGURES,
        "trained at 300 K for {} minutes, root mean square errors of forces in meV/A: {} (300 K), {} "
        "(600 K), {} (1200 K)",
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
            f"| {edges:,} | ({lmax}, 2) | " + " | ".join(["{} / {}"] * 4) + " |",
            lambda edges=edges, lmax=lmax: convolution(edges, lmax),
        )
        for edges in (8192, 2048)
        for lmax in (2, 4, 6)
    ),
    Claim(
        FIGURES,
        "ours to theirs: {} ((2, 2), 32 channels, 8,192 edges) and {} ((4, 2), 128 channels, 8,192 "
        "edges); with 2,048 edges the latter is {},",
        lambda: [convolution_memory(8192, 2), convolution_memory(8192, 4),
                 convolution_memory(2048, 4)],
    ),
    Claim(
        FIGURES,
        "at L = 2, 4 and 6: {}, {} and {} times as fast (mmax 2)",
        lambda: [against_channelwise(lmax) for lmax in (2, 4, 6)],
    ),
]  # fmt: skip
