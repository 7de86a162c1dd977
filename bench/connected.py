"""Products whose channels meet in pairs beside e3nn and cuEquivariance, in one process.

    python -m bench.connected --output bench/results/connected.json

Every result is compared with e3nn's before anything is timed. Times are medians of interleaved
rounds. Jitted e3nn-jax is not run: its times for full products are those of the published
comparison of costs, measured elsewhere, and marked so.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from math import exp, log
from typing import Any

import torch
from torch import Tensor

from bench.channelwise import LAYOUTS, agree, operands, passes
from bench.interleaved import all_rounds, copy_bandwidth, medians
from bench.recorder import Record, output_arguments
from equigeo import tensor_products as tp
from equigeo.interop import to_e3nn
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


def cue_product(irreps: tuple[str, str, str]) -> Callable[..., Tensor]:
    import cuequivariance as cue
    import cuequivariance_torch as cuet

    in1, in2, out = (cue.Irreps("O3", text) for text in irreps)
    product = cuet.FullyConnectedTensorProduct(
        in1, in2, out, layout=cue.ir_mul, shared_weights=False, internal_weights=False,
        method="naive",
    )  # fmt: skip
    return lambda x, y, w: product(x, y, weight=w)


def measure_weighted(name: str, rows: int, rounds: int) -> dict[str, Any]:
    ours = weighted_products(name)
    theirs = to_e3nn(ours["mul_ir"])
    inputs = operands(ours["mul_ir"], rows, rows)
    agree(ours["mul_ir"](*inputs), theirs(*inputs))
    products = {"e3nn": theirs, "cuEquivariance ir_mul": cue_product(WEIGHTED[name])}
    products |= {f"ours {layout}": product for layout, product in ours.items()}
    calls = {
        f"{library} {kind}": call
        for library, product in products.items()
        for kind, call in passes(product, inputs).items()
    }
    numbers = 4 * (sum(x.shape[1] for x in inputs) + ours["mul_ir"].irreps_out.dim)
    return timed(name, rows, calls, rounds) | {"bytes per row, forward": numbers}


def measure_unweighted(name: str, rows: int, rounds: int) -> dict[str, Any]:
    ours = {layout: UNWEIGHTED[name](layout) for layout in LAYOUTS}
    theirs = to_e3nn(ours["mul_ir"])
    inputs = operands(ours["mul_ir"], rows, rows)[:2]
    agree(ours["mul_ir"](*inputs), theirs(*inputs))
    products = {"e3nn": theirs} | {f"ours {layout}": p for layout, p in ours.items()}
    calls = {
        f"{library} {kind}": call
        for library, product in products.items()
        for kind, call in passes(product, inputs).items()
    }
    return timed(name, rows, calls, rounds)


def measure_full(lmax: int, rows: int, rounds: int) -> dict[str, Any]:
    """All paths of even degree in sum, one copy of each degree."""
    ours = compared_product("full_sparse even", lmax, "mimo")
    theirs = to_e3nn(ours)
    inputs = operands(ours, rows, rows)[:2]
    agree(ours(*inputs), theirs(*inputs))
    products = {"e3nn": theirs, "ours mul_ir": ours}
    calls = {
        f"{library} {kind}": call
        for library, product in products.items()
        for kind, call in passes(product, inputs).items()
    }
    row = timed(f"full, even paths, L = {lmax}", rows, calls, rounds)
    if lmax in JAX_MILLISECONDS and rows == FULL_ROWS:
        quoted = JAX_MILLISECONDS[lmax] * 1e3 / rows
        row["quoted microseconds per row, e3nn-jax forward"] = quoted
    return row


def timed(name: str, rows: int, calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    seconds = all_rounds(calls, rounds)
    row = {
        "problem": name,
        "rows": rows,
        "threads": torch.get_num_threads(),
        "microseconds per row": {n: 1e6 * t / rows for n, t in medians(seconds).items()},
        "seconds": seconds,
    }
    print(json.dumps(row), flush=True)
    return row


def ratios(row: dict[str, Any]) -> dict[str, float]:
    """How many times faster than others, both layouts of ours."""
    us = row["microseconds per row"]
    made = {}
    for kind in ("forward", "both"):
        best = min(t for name, t in us.items() if name in (f"ours {l} {kind}" for l in LAYOUTS))
        for library in ("e3nn", "cuEquivariance ir_mul"):
            if f"{library} {kind}" in us:
                made[f"{library} {kind}"] = us[f"{library} {kind}"] / best
        if f"ours ir_mul {kind}" in us:
            made[f"mul_ir / ir_mul {kind}"] = us[f"ours mul_ir {kind}"] / us[f"ours ir_mul {kind}"]
    quoted = row.get("quoted microseconds per row, e3nn-jax forward")
    if quoted is not None:
        made["e3nn-jax forward, quoted"] = quoted / us["ours mul_ir forward"]
    return {name: round(value, 2) for name, value in made.items()}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    lines: dict[str, Any] = {
        f"{row['problem']}, {row['rows']} rows, {row['threads']} threads": ratios(row)
        for row in rows
    }
    gains = [
        min(line["e3nn both"], line["cuEquivariance ir_mul both"])
        for line in lines.values()
        if "cuEquivariance ir_mul both" in line
    ]
    if gains:
        lines["weighted, both passes, against the better of the two"] = {
            "geometric mean": round(exp(sum(map(log, gains)) / len(gains)), 2),
            "least": min(gains),
        }
    return lines


FULL_ROWS = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="*", default=[*WEIGHTED, *UNWEIGHTED])
    parser.add_argument("--degrees", type=int, nargs="*", default=[2, 3, 4, 5, 6])
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--rounds", type=int, default=7)
    output_arguments(parser, required=True)
    arguments = parser.parse_args()
    record = Record(arguments.output)
    rows, bandwidths = [], {}
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        bandwidths[threads] = copy_bandwidth()
        for name in arguments.problems:
            measure = measure_weighted if name in WEIGHTED else measure_unweighted
            rows.append(measure(name, arguments.rows, arguments.rounds))
        for lmax in arguments.degrees:
            rows.append(measure_full(lmax, FULL_ROWS, arguments.rounds))
    results = {
        "copy bandwidth, GB/s": {n: b / 1e9 for n, b in bandwidths.items()},
        "summary": summary(rows),
        "rows": rows,
    }
    record.write(results)
    print(json.dumps(results["summary"], indent=1))


if __name__ == "__main__":
    main()
