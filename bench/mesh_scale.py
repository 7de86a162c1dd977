"""Time and memory of blocks, classifiers and pooling on meshes of ten thousand to a million faces.

    python -m bench.mesh_scale --output bench/results/mesh_scale.json

Every case runs in a process of its own under every setting of the C library's allocator, so that
its peak is its own; inside, it is repeated, and all repetitions are kept. The seconds that the
system takes are stated beside those of the arithmetic: they map fresh memory, page by page, and
depend on the machine and the setting more than on anything else. The settings are environment
variables that a user may set alike:

- "as is": none. Every tensor of more than 32 MiB is mapped anew and given back when it dies.
- "huge pages": PyTorch's ``THP_MEM_ALLOC_ENABLE=1`` maps 2 MiB at a time.
- "kept": ``MALLOC_*`` of glibc let memory stay with the process. Fastest from the second step on;
  the heap splits, so that the peak is larger by half.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

import torch

from bench.large_mesh import peak_gib, torus
from bench.recorder import Record, output_arguments
from equigeo.mesh import EdgePool, PrimalDualClassifier, PrimalDualGraph, ResidualBlock
from equigeo.mesh.nn.residual_block import recompute_blocks

GIB = 2**30
ALLOCATORS = {
    "as is": {},
    "huge pages": {"THP_MEM_ALLOC_ENABLE": "1"},
    "kept": {
        "MALLOC_MMAP_THRESHOLD_": str(4 * GIB),
        "MALLOC_TRIM_THRESHOLD_": str(64 * GIB),
        "MALLOC_TOP_PAD_": str(GIB // 16),
    },
}
SIDES = {"10^4": 71, "10^5": 224, "10^6": 708}
"""Quads along each circle of a torus, by the approximate number of faces."""
TO_HALF = 2 / 3
"""Share of the adjacencies to keep: a third of 1.5 per face is contracted, half of the faces."""
CHANNELS = 32
Phases = Iterable[tuple[str, Callable[[], Any]]]


def block(graph: PrimalDualGraph) -> Phases:
    """One block of the default preset inside a network: gradients reach its inputs."""
    layer = ResidualBlock((CHANNELS, CHANNELS), (CHANNELS, CHANNELS), self_term=True)
    x_primal, x_dual = (x.requires_grad_() for x in features(graph))
    found: list[torch.Tensor] = []

    def forward() -> None:
        out, _ = layer(graph, x_primal, x_dual)
        found.append(out.x_primal.sum() + out.x_dual.sum())

    return ("forward", forward), ("backward", lambda: found.pop().backward())


def classifier(graph: PrimalDualGraph, *, checkpoint: bool = False) -> Phases:
    """The default preset; its head is in evaluation, as batch statistics need two meshes."""
    model = PrimalDualClassifier.preset("default", num_classes=4)
    model.head.eval()
    if checkpoint:
        recompute_blocks(model)
    found: list[torch.Tensor] = []

    def backward() -> None:
        found.pop().backward()
        model.zero_grad()

    return ("forward", lambda: found.append(model(graph).sum())), ("backward", backward)


def checkpointed(graph: PrimalDualGraph) -> Phases:
    """The same, with blocks that keep their inputs alone."""
    return classifier(graph, checkpoint=True)


def pooling(graph: PrimalDualGraph) -> Phases:
    """To half the faces, by random attention."""
    graph = graph.with_features(*features(graph))
    attention = torch.rand(graph.primal.num_edges, 1)
    pool = EdgePool(TO_HALF)

    def forward() -> None:
        with torch.no_grad():
            pool(graph, attention)

    return (("forward", forward),)


CASES: dict[str, Callable[[PrimalDualGraph], Phases]] = {
    "default block": block,
    "classifier": classifier,
    "classifier, checkpointed": checkpointed,
    "pooling to half": pooling,
}


def features(graph: PrimalDualGraph) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(graph.num_primal, CHANNELS), torch.randn(graph.num_dual, CHANNELS)


def run_case(case: str, side: int, repetitions: int) -> dict[str, Any]:
    """Repeat one case in this process; the first repetition is kept but not in the median."""
    torch.manual_seed(0)
    graph = PrimalDualClassifier.preset("default", num_classes=4).graph(torus(side))
    phases = list(CASES[case](graph))
    before = peak_gib()
    runs = [{name: timed(call) for name, call in phases} for _ in range(repetitions)]
    later = [sum(phase["seconds"] for phase in run.values()) for run in runs[1:] or runs]
    return {
        "case": case,
        "faces": graph.num_primal,
        "threads": torch.get_num_threads(),
        "seconds, median": median(later),
        "microseconds a face": 1e6 * median(later) / graph.num_primal,
        "peak GiB": peak_gib(),
        "GiB before": before,
        "repetitions": runs,
    }


def timed(call: Callable[[], Any]) -> dict[str, float]:
    """Seconds of the clock, of the arithmetic and of the system, and pages that were mapped."""
    start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    call()
    end, now = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": end - start,
        "user": now.ru_utime - used.ru_utime,
        "system": now.ru_stime - used.ru_stime,
        "page faults": now.ru_minflt - used.ru_minflt,
    }


def in_child(case: str, side: int, repetitions: int, allocator: str) -> dict[str, Any]:
    """Run a case under a setting of the allocator."""
    command = [sys.executable, "-m", "bench.mesh_scale", "--child", case]
    command += ["--sides", str(side), "--repetitions", str(repetitions)]
    settings = {name for setting in ALLOCATORS.values() for name in setting}
    environment = {name: value for name, value in os.environ.items() if name not in settings}
    output = subprocess.check_output(command, env={**environment, **ALLOCATORS[allocator]})
    return {"allocator": allocator, **json.loads(output)}


def growth(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cost per face of the largest mesh relative to the smallest."""
    found = []
    for case, allocator in dict.fromkeys((row["case"], row["allocator"]) for row in rows):
        own = [r for r in rows if (r["case"], r["allocator"]) == (case, allocator)]
        least, most = min(own, key=_faces), max(own, key=_faces)
        ratio = most["microseconds a face"] / least["microseconds a face"]
        found.append({"case": case, "allocator": allocator, "largest over smallest": ratio})
    return found


def _faces(row: dict[str, Any]) -> int:
    return int(row["faces"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", type=int, nargs="+", default=list(SIDES.values()))
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES))
    parser.add_argument("--allocators", nargs="+", choices=tuple(ALLOCATORS), default=ALLOCATORS)
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--child", choices=tuple(CASES))
    output_arguments(parser)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(run_case(arguments.child, arguments.sides[0], arguments.repetitions)))
        return
    record = Record(arguments.output)
    rows = [
        in_child(case, side, arguments.repetitions, allocator)
        for allocator in arguments.allocators
        for case in arguments.cases
        for side in arguments.sides
    ]
    results = {
        "allocators": {name: ALLOCATORS[name] for name in arguments.allocators},
        "cost of a face": growth(rows),
        "rows": rows,
    }
    print(json.dumps(record.write(results), indent=1))


if __name__ == "__main__":
    main()
