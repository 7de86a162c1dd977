"""Functions on the sphere beside e3nn and sphericart, in one process.

    python -m bench.sphere --threads 2 --output bench/results/sphere_2_threads.json

Spherical harmonics with their gradients, and products of functions on a grid. Values and gradients
of all are compared before anything is timed, peers in every mode (:mod:`bench.peers`). Times are
medians of interleaved rounds. One number of threads per process: sphericart 2.0.4 writes beyond its
buffers when they become more.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from e3nn import o3
from torch import Tensor

from bench.interleaved import copy_bandwidth, medians
from bench.peers import KINDS, Layer, Library, compare, drawn, fastest, jit_mode, with_compiled
from bench.recorder import Record, output_arguments
from equigeo import tensor_products as tp

POINTS = 10_000  # or pairs of functions


def harmonics_libraries(lmax: int) -> dict[str, Library]:
    """Values of all degrees at points, normalized as they come."""
    degrees = list(range(lmax + 1))

    def theirs(x: Tensor) -> Tensor:
        values: Tensor = o3.spherical_harmonics(degrees, x, normalize=True)
        return values

    modes: dict[str, dict[str, Layer]] = {
        "ours": {"eager": lambda x: tp.spherical_harmonics(degrees, x, True)},
        "e3nn": with_compiled(theirs),
    }
    with jit_mode("script"):
        module = o3.SphericalHarmonics(degrees, normalize=True)
        modes["e3nn"]["script"] = torch.jit.script(module)
    points = drawn((POINTS, 3))
    libraries = {name: Library(of, points, PEER_OF.get(name)) for name, of in modes.items()}
    if find_spec("sphericart"):
        import sphericart.torch

        computes = with_compiled(sphericart.torch.SphericalHarmonics(lmax).compute)
        # The same functions of axes in another order: compared, but not timed like this.
        as_ours = {mode: partial(in_our_terms, compute) for mode, compute in computes.items()}
        compare({"ours": libraries["ours"], "sphericart": Library(as_ours, points, "ours")})
        libraries["sphericart"] = Library(computes, points)
    return libraries


def in_our_terms(compute: Layer, x: Tensor) -> Tensor:
    """Values of sphericart, whose poles are on the z axis, with those on the y axis."""
    return compute(x[:, [2, 0, 1]])


def grid_libraries(lmax: int) -> dict[str, Library]:
    """Products of functions of degrees to lmax, all of whose degrees are kept."""
    product = tp.GauntTensorProduct(lmax, lmax, 2 * lmax, basis="integral")
    resolution = (4 * lmax + 2, 4 * lmax + 1)  # e3nn wants an even number of latitudes
    # Its tables are right to all digits only when it makes them in float64: in float32 a tenth is
    # lost at degree 20.
    to_grid = o3.ToS2Grid(lmax, resolution, normalization="integral", dtype=torch.float64).float()
    from_grid = o3.FromS2Grid(
        resolution, 2 * lmax, normalization="integral", dtype=torch.float64
    ).float()
    by_series = tp.GauntTensorProduct(lmax, lmax, 2 * lmax, method="fourier", basis="integral")
    signals = drawn(*[(POINTS, (lmax + 1) ** 2)] * 2)
    modes: dict[str, dict[str, Layer]] = {
        "ours": {"eager": product},
        "ours fourier": {"eager": by_series},
        "e3nn": with_compiled(lambda x, y: from_grid(to_grid(x) * to_grid(y))),
    }
    return {name: Library(of, signals, PEER_OF.get(name)) for name, of in modes.items()}


PEER_OF = {"e3nn": "ours", "ours fourier": "ours"}


MEASURED = {"spherical harmonics": KINDS, "grid": ("forward", "both")}


def measure(
    problem: str, lmax: int, libraries: dict[str, Library], rounds: int
) -> Iterator[dict[str, Any]]:
    for found in compare(libraries, MEASURED[problem]).timed_with_either_memory(rounds):
        microseconds = {name: 1e6 * t / POINTS for name, t in medians(found["seconds"]).items()}
        print(json.dumps(microseconds), flush=True)
        yield {"problem": problem, "lmax": lmax, "microseconds": microseconds, **found}


def ratios(microseconds: dict[str, float], kind: str) -> dict[str, float]:
    """Speed-ups against each peer, in eager mode and in its fastest mode."""
    mine = microseconds[f"ours {kind}"]
    found = {}
    for peer in ("e3nn", "sphericart"):
        if any(name.startswith(peer) for name in microseconds):
            found[f"{peer}, fastest mode"] = fastest(microseconds, peer, kind) / mine
        if f"{peer} {kind}" in microseconds:
            found[peer] = microseconds[f"{peer} {kind}"] / mine
    return {name: round(value, 2) for name, value in found.items()}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The same of all problems, by pass and degree."""
    found: dict[str, Any] = {}
    for row in rows:
        for kind in MEASURED[row["problem"]]:
            kept = "" if row["results kept"] else ", no results kept"
            of_kind = found.setdefault(f"{row['problem']}, {kind}{kept}", {})
            of_kind[row["lmax"]] = ratios(row["microseconds"], kind)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--degrees", type=int, nargs="*", default=range(1, 11), help="of harmonics")
    parser.add_argument("--grids", type=int, nargs="*", default=(2, 4, 6, 8, 10), help="degrees")
    parser.add_argument("--rounds", type=int, default=9)
    output_arguments(parser, required=True)
    arguments = parser.parse_args()
    record = Record(arguments.output)
    rows: list[dict[str, Any]] = []
    torch.set_num_threads(arguments.threads)
    for lmax in arguments.degrees:
        libraries = harmonics_libraries(lmax)
        rows += measure("spherical harmonics", lmax, libraries, arguments.rounds)
    for lmax in arguments.grids:
        rows += measure("grid", lmax, grid_libraries(lmax), arguments.rounds)
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
