"""Products whose channels meet in pairs, beside e3nn and cuEquivariance.

Run with ``make bench``; choose by id, as in ``-k "diffdock-L1-ours-both"``. Results are compared
with e3nn's before anything is timed. Bytes are all operands and the output, each moved once; the
bound is a copy between arrays beyond the caches. Ratios of interleaved runs come from
``connected.py``.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.connected import (
    FULL_ROWS,
    UNWEIGHTED,
    WEIGHTED,
    full_product,
    unweighted_libraries,
    weighted_libraries,
)
from bench.peers import KINDS, Library, calls_as_they_are
from bench.record import record

ROWS = 1024
every_pass = pytest.mark.parametrize("kind", KINDS)
every_thread_count = pytest.mark.parametrize("threads", [1, 2], ids=["1 thread", "2 threads"])


def run(benchmark: Any, libraries: dict[str, Library], library: str, kind: str) -> None:
    moved, inputs = None, libraries[library].inputs
    call = calls_as_they_are(libraries, (kind,))[f"{library} {kind}"]
    if kind == "forward":
        moved = sum(x.numel() * x.element_size() for x in (*inputs, *call()))
    record(benchmark, call, "row", len(inputs[0]), moved)


@every_thread_count
@every_pass
@pytest.mark.parametrize(
    "library",
    ["ours mul_ir", "ours ir_mul", "e3nn", "cuEquivariance ir_mul"],
    ids=["ours", "ours_ir_mul", "e3nn", "cuEquivariance_ir_mul"],
)
@pytest.mark.parametrize("problem", WEIGHTED)
def bench_fully_connected(benchmark, problem, library, kind, threads):
    torch.set_num_threads(threads)
    run(benchmark, weighted_libraries(problem, ROWS), library, kind)


two_libraries = pytest.mark.parametrize("library", ["ours mul_ir", "e3nn"], ids=["ours", "e3nn"])


@every_thread_count
@every_pass
@two_libraries
@pytest.mark.parametrize("problem", UNWEIGHTED, ids=lambda name: name.replace(" ", "_"))
def bench_unweighted(benchmark, problem, library, kind, threads):
    torch.set_num_threads(threads)
    libraries = unweighted_libraries(UNWEIGHTED[problem]("mul_ir"), ROWS)
    run(benchmark, libraries, library, kind)


@every_thread_count
@every_pass
@two_libraries
@pytest.mark.parametrize("lmax", [2, 3, 4, 5, 6], ids=lambda lmax: f"L{lmax}")
def bench_full(benchmark, lmax, library, kind, threads):
    torch.set_num_threads(threads)
    run(benchmark, unweighted_libraries(full_product(lmax), FULL_ROWS), library, kind)
