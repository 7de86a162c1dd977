"""Products whose channels meet in pairs beside e3nn and cuEquivariance, in one process.

    python -m bench.connected --output bench/results/connected.json

Values, gradients and second derivatives of all are compared before anything is timed, peers in
every mode (:mod:`bench.peers`); with and without results whose memory our kernels keep. Times are
medians of interleaved rounds. Jitted e3nn-jax is not run: its times for full products are those of
the published comparison of costs, measured elsewhere, and marked so.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from typing import Any

import torch

from bench.channelwise import LAYOUTS, WANTED, operands
from bench.interleaved import copy_bandwidth, medians
from bench.peers import KINDS, Library, compare, e3nn_modes, fastest, with_compiled
from bench.recorder import Record, output_arguments
from equigeo import tensor_products as tp
from equigeo.interop.cuequivariance import convert
from equigeo.tensor_products.analysis.compared_product import compared_product

DIFFDOCK = "10x1o+10x1e+48x0e+48x0o"
TETRIS = "64x0e+24x1e+24x1o+16x2e+16x2o"
SPHERE = "0e+1o+2e+3o"
WEIGHTED: dict[str, tuple[str, str, str]] = {
    "diffdock-L1": (DIFFDOCK, "0e+1o", DIFFDOCK),
    "diffdock-L2": (DIFFDOCK, "0e+1o+2e", DIFFDOCK),
    "tetris-poly-1": (SPHERE, SPHERE, TETRIS),
    "tetris-poly-2": (TETRIS, "0e+1o+2e", "0o+6x0e"),
    "e3tools-conv": ("64x0e+16x1o", "0e+1o", "80x0e+16x1o"),
    "e3tools-transformer": ("64x0e+16x1o", "0e+1o", "64x0e+16x1o"),
}
"""Fully connected, with weights of every row."""

CHANNELS = "64x0e+64x1o+64x2e"
UNWEIGHTED: dict[str, Callable[[str], tp.TensorProduct]] = {
    "elementwise": lambda layout: tp.ElementwiseTensorProduct(CHANNELS, CHANNELS, layout=layout),
    "all pairs": lambda layout: tp.FullTensorProduct("8x0e+8x1o+8x2e", "4x0e+4x1o", layout=layout),
}

JAX_MILLISECONDS = {2: 1.7, 4: 12.0, 6: 115.0}
"""Jitted e3nn-jax ``tensor_product``, even paths of all degrees, 10,000 rows, 2 threads."""


def weighted_products(name: str) -> dict[str, tp.TensorProduct]:
    options = {"shared_weights": False, "internal_weights": False}
    return {
        layout: tp.FullyConnectedTensorProduct(*WEIGHTED[name], layout=layout, **options)
        for layout in LAYOUTS
    }


def cue_product(irreps: tuple[str, str, str]) -> Any:
    import cuequivariance as cue
    import cuequivariance_torch as cuet

    in1, in2, out = (cue.Irreps("O3", text) for text in irreps)
    return cuet.FullyConnectedTensorProduct(
        in1, in2, out, layout=cue.ir_mul, shared_weights=False, internal_weights=False,
        method="naive",
    )  # fmt: skip


def weighted_libraries(name: str, rows: int) -> dict[str, Library]:
    """The product with weights of every row, in every library and layout."""
    ours, theirs = weighted_products(name)["mul_ir"], cue_product(WEIGHTED[name])
    modes = {
        "ours mul_ir": {"eager": ours},
        "e3nn": e3nn_modes(ours),
        "ours ir_mul": {"eager": convert(theirs)},
        "cuEquivariance ir_mul": with_compiled(lambda x, y, w: theirs(x, y, weight=w)),
    }
    inputs = operands(ours, rows, rows)
    return {name: Library(of, inputs, WANTED.get(name)) for name, of in modes.items()}


def unweighted_libraries(ours: tp.TensorProduct, rows: int) -> dict[str, Library]:
    """A product without weights, beside e3nn's."""
    inputs = operands(ours, rows, rows)[:2]
    return {
        "ours mul_ir": Library({"eager": ours}, inputs),
        "e3nn": Library(e3nn_modes(ours), inputs, "ours mul_ir"),
    }


def measure_weighted(name: str, rows: int, rounds: int) -> Iterator[dict[str, Any]]:
    ours = weighted_products(name)["mul_ir"]
    numbers = ours.irreps_in1.dim + ours.irreps_in2.dim + ours.weight_numel + ours.irreps_out.dim
    for row in timed(name, rows, weighted_libraries(name, rows), rounds):
        yield row | {"bytes per row, forward": 4 * numbers}


def measure_unweighted(name: str, rows: int, rounds: int) -> Iterator[dict[str, Any]]:
    ours = {layout: UNWEIGHTED[name](layout) for layout in LAYOUTS}
    libraries = unweighted_libraries(ours["mul_ir"], rows)
    libraries["ours ir_mul"] = Library({"eager": ours["ir_mul"]}, libraries["e3nn"].inputs)
    return timed(name, rows, libraries, rounds)


def full_product(lmax: int) -> tp.TensorProduct:
    """All paths of even degree in sum, one copy of each degree."""
    return compared_product("full_sparse even", lmax, "mimo")


def measure_full(lmax: int, rows: int, rounds: int) -> Iterator[dict[str, Any]]:
    libraries = unweighted_libraries(full_product(lmax), rows)
    for row in timed(f"full, even paths, L = {lmax}", rows, libraries, rounds):
        if lmax in JAX_MILLISECONDS and rows == FULL_ROWS:
            quoted = JAX_MILLISECONDS[lmax] * 1e3 / rows
            row["quoted microseconds per row, e3nn-jax forward"] = quoted
        yield row


def timed(
    name: str, rows: int, libraries: dict[str, Library], rounds: int
) -> Iterator[dict[str, Any]]:
    for found in compare(libraries).timed_with_either_memory(rounds):
        microseconds = {n: 1e6 * t / rows for n, t in medians(found["seconds"]).items()}
        print(json.dumps(microseconds), flush=True)
        yield {
            "problem": name,
            "rows": rows,
            "threads": torch.get_num_threads(),
            "microseconds per row": microseconds,
            **found,
        }


def ratios(row: dict[str, Any]) -> dict[str, float]:
    """Speed-ups of the better layout against peers are, in either of their modes."""
    us = row["microseconds per row"]
    made = {}
    for kind in KINDS:
        best = min(us[key] for layout in LAYOUTS if (key := f"ours {layout} {kind}") in us)
        for peer in WANTED:
            if f"{peer} {kind}" in us:
                made[f"{peer} {kind}"] = us[f"{peer} {kind}"] / best
                made[f"{peer} {kind}, fastest mode"] = fastest(us, peer, kind) / best
        if f"ours ir_mul {kind}" in us:
            made[f"mul_ir / ir_mul {kind}"] = us[f"ours mul_ir {kind}"] / us[f"ours ir_mul {kind}"]
    quoted = row.get("quoted microseconds per row, e3nn-jax forward")
    if quoted is not None:
        made["e3nn-jax forward, quoted"] = quoted / us["ours mul_ir forward"]
    return {name: round(value, 2) for name, value in made.items()}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Ratios of every row."""
    return {
        f"{row['problem']}, {row['rows']} rows, {row['threads']} threads"
        + ("" if row["results kept"] else ", no results kept"): ratios(row)
        for row in rows
    }


FULL_ROWS = 10_000


def measure(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows of all problems with the present number of threads."""
    for name in arguments.problems:
        one = measure_weighted if name in WEIGHTED else measure_unweighted
        yield from one(name, arguments.rows, arguments.rounds)
    for lmax in arguments.degrees:
        yield from measure_full(lmax, FULL_ROWS, arguments.rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="*", default=[*WEIGHTED, *UNWEIGHTED])
    parser.add_argument("--degrees", type=int, nargs="*", default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--rounds", type=int, default=7)
    output_arguments(parser, required=True)
    arguments = parser.parse_args()
    record = Record(arguments.output)
    rows: list[dict[str, Any]] = []
    bandwidths = {}
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        bandwidths[threads] = copy_bandwidth()
        rows += measure(arguments)
    results = {
        "copy bandwidth, GB/s": {n: b / 1e9 for n, b in bandwidths.items()},
        "summary": summary(rows),
        "rows": rows,
    }
    record.write(results)
    print(json.dumps(results["summary"], indent=1))


if __name__ == "__main__":
    main()
