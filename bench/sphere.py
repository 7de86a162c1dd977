"""Functions on the sphere beside e3nn and sphericart, in one process.

    python -m bench.sphere --threads 2 --output bench/results/sphere_2_threads.json

Spherical harmonics with their gradient, and products of functions on a grid. Every result is
compared with e3nn's before anything is timed; times are medians of interleaved rounds. One number
of threads per process: sphericart 2.0.4 writes beyond its buffers when they become more.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from math import exp, log
from typing import Any

import torch
from e3nn import o3
from torch import Tensor

from bench.interleaved import all_rounds, copy_bandwidth, medians
from bench.recorder import Record, output_arguments
from equigeo import tensor_products as tp

POINTS, BATCH = 10_000, 10_000


def harmonics_calls(lmax: int) -> dict[str, Callable[[], Any]]:
    """Values of all degrees at points, and the gradient of a linear function of them."""
    points = torch.randn(POINTS, 3, generator=torch.Generator().manual_seed(lmax))
    direction = torch.randn(POINTS, (lmax + 1) ** 2, generator=torch.Generator().manual_seed(0))
    degrees = list(range(lmax + 1))
    peers: dict[str, Callable[[Tensor], Tensor]] = {
        "ours": lambda x: tp.spherical_harmonics(degrees, x, True),
        "e3nn": lambda x: o3.spherical_harmonics(degrees, x, normalize=True),
    }

    def both(peer: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        x = points.clone().requires_grad_()
        values = peer(x)
        return values, *torch.autograd.grad(values, x, direction)

    for got, want in zip(both(peers["ours"]), both(peers["e3nn"]), strict=True):
        torch.testing.assert_close(
            got, want, rtol=1e-4, atol=1e-5 * float(want.detach().abs().max())
        )
    if find_spec("sphericart"):
        import sphericart.torch

        peers["sphericart"] = sphericart.torch.SphericalHarmonics(lmax).compute
    calls: dict[str, Callable[[], Any]] = {}
    for name, peer in peers.items():
        calls[f"{name} forward"] = partial(peer, points)
        calls[f"{name} both"] = partial(both, peer)
    return calls


def grid_calls(lmax: int) -> dict[str, Callable[[], Any]]:
    """Products of functions of degrees to lmax, all of whose degrees are kept."""
    product = tp.GauntTensorProduct(lmax, lmax, 2 * lmax, basis="integral")
    resolution = (4 * lmax + 2, 4 * lmax + 1)  # e3nn wants an even number of latitudes
    # Its tables are right to all digits only when it makes them in float64: in float32 a tenth is
    # lost at degree 20.
    to_grid = o3.ToS2Grid(lmax, resolution, normalization="integral", dtype=torch.float64).float()
    from_grid = o3.FromS2Grid(
        resolution, 2 * lmax, normalization="integral", dtype=torch.float64
    ).float()
    generator = torch.Generator().manual_seed(lmax)
    x, y = (torch.randn(BATCH, (lmax + 1) ** 2, generator=generator) for _ in "xy")

    def theirs() -> Tensor:
        return from_grid(to_grid(x) * to_grid(y))

    by_series = tp.GauntTensorProduct(lmax, lmax, 2 * lmax, method="fourier", basis="integral")
    want = by_series(x.double(), y.double()).float()
    most = float(want.abs().max())
    torch.testing.assert_close(product(x, y), want, rtol=1e-5, atol=1e-6 * most)
    torch.testing.assert_close(theirs(), want, rtol=1e-4, atol=1e-5 * most)
    return {
        "ours": lambda: product(x, y),
        "ours fourier": lambda: by_series(x, y),
        "e3nn": theirs,
    }


def measure(calls: dict[str, Callable[[], Any]], items: int, rounds: int) -> dict[str, Any]:
    with torch.no_grad() if "ours" in calls else torch.enable_grad():
        seconds = all_rounds(calls, rounds)
    microseconds = {name: 1e6 * t / items for name, t in medians(seconds).items()}
    return {"microseconds": microseconds, "seconds": seconds}


def ratios(microseconds: dict[str, float], kind: str) -> dict[str, float]:
    """How many times longer each peer takes."""
    ours = microseconds[f"ours{kind}"]
    others = (n for n in microseconds if n.endswith(kind) and not n.startswith("ours"))
    return {name.removesuffix(kind): round(microseconds[name] / ours, 2) for name in others}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    with_gradient = {
        row["lmax"]: ratios(row["microseconds"], " both")
        for row in rows
        if row["problem"] == "spherical harmonics"
    }
    products = {
        row["lmax"]: ratios(row["microseconds"], "") for row in rows if row["problem"] == "grid"
    }
    mean = exp(sum(log(ratio["e3nn"]) for ratio in with_gradient.values()) / len(with_gradient))
    return {
        "spherical harmonics with gradient, times as fast as": with_gradient,
        "the same, e3nn, geometric mean": round(mean, 2),
        "grid product, times as fast as": products,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    output_arguments(parser, required=True)
    arguments = parser.parse_args()
    record = Record(arguments.output)
    rows: list[dict[str, Any]] = []
    torch.set_num_threads(arguments.threads)
    for lmax in range(1, 11):
        times = measure(harmonics_calls(lmax), POINTS, arguments.rounds)
        rows.append({"problem": "spherical harmonics", "lmax": lmax, **times})
    for lmax in (2, 4, 6, 8, 10):
        times = measure(grid_calls(lmax), BATCH, arguments.rounds)
        rows.append({"problem": "grid", "lmax": lmax, **times})
    results = {
        "threads": arguments.threads,
        "copy bandwidth, GB/s": copy_bandwidth() / 1e9,
        "summary": summary(rows),
        "rows": rows,
    }
    record.write(results)
    print(json.dumps(results["summary"], indent=1))


if __name__ == "__main__":
    main()
