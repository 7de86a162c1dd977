"""Time and memory of the primal and dual graph of a closed mesh with a million faces.

    python -m bench.large_mesh --output bench/results/large_mesh.json

Every repetition runs in a process of its own, so that the peak is that of one construction; the
memory of the process before it, PyTorch and the mesh included, is stated beside.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from statistics import median

import torch

from bench.recorder import Record, output_arguments
from equigeo.mesh import DualKind, PrimalDualGraph, TriangleMesh


def main() -> None:
    """Measure in child processes and write the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=708, help="quads along each circle of a torus")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--child", choices=[kind.value for kind in DualKind])
    output_arguments(parser)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments.side, DualKind(arguments.child))))
        return
    record = Record(arguments.output)
    rows = [series(arguments.side, kind, arguments.repetitions) for kind in DualKind]
    print(json.dumps(record.write({"rows": rows}), indent=1))


def series(side: int, kind: DualKind, repetitions: int) -> dict[str, object]:
    """Repeat one measurement in fresh processes."""
    command = [sys.executable, "-m", "bench.large_mesh", "--side", str(side), "--child", kind.value]
    runs = [json.loads(subprocess.check_output(command)) for _ in range(repetitions)]
    return {
        **{name: runs[0][name] for name in ("dual", "faces", "dual nodes", "dual edges")},
        "seconds, median": median(run["seconds"] for run in runs),
        "seconds": [run["seconds"] for run in runs],
        "peak GiB": max(run["peak GiB"] for run in runs),
        "GiB before": max(run["GiB before"] for run in runs),
    }


def measure(side: int, kind: DualKind) -> dict[str, object]:
    """Build both graphs of one torus once."""
    mesh = torus(side)
    before = peak_gib()
    start = time.perf_counter()
    graph = PrimalDualGraph.from_mesh(mesh, kind)
    seconds = time.perf_counter() - start
    return {
        "dual": kind.value,
        "faces": mesh.num_faces,
        "dual nodes": graph.num_dual,
        "dual edges": graph.dual_edges.num_edges,
        "seconds": seconds,
        "peak GiB": peak_gib(),
        "GiB before": before,
    }


def torus(side: int) -> TriangleMesh:
    """A torus of ``2 * side * side`` faces."""
    circle = 2 * torch.pi * torch.arange(side, dtype=torch.float64) / side
    u, v = torch.meshgrid(circle, circle, indexing="ij")
    ring = 2 + v.cos()
    vertices = torch.stack((ring * u.cos(), ring * u.sin(), v.sin()), dim=-1).reshape(-1, 3)
    number = torch.arange(side * side).reshape(side, side)
    along, across = number.roll(-1, 0), number.roll(-1, 1)
    corner = along.roll(-1, 1)
    lower = torch.stack((number, along, corner), dim=-1)
    upper = torch.stack((number, corner, across), dim=-1)
    return TriangleMesh(vertices, torch.stack((lower, upper), dim=2).reshape(-1, 3))


def peak_gib() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
