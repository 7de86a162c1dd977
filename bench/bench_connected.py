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

from bench.channelwise import agree, operands, passes
from bench.connected import (
    FULL_ROWS,
    UNWEIGHTED,
    WEIGHTED,
    cue_product,
    weighted_products,
)
from bench.record import record
from equigeo.interop import to_e3nn
from equigeo.tensor_products.analysis.compared_product import compared_product

ROWS = 1024
LIBRARIES = ["ours", "ours ir_mul", "e3nn", "cuEquivariance ir_mul"]
every_pass = pytest.mark.parametrize("kind", ["forward", "both"])
every_thread_count = pytest.mark.parametrize("threads", [1, 2], ids=["1 thread", "2 threads"])


def run(benchmark: Any, product: Any, inputs: list[torch.Tensor], kind: str) -> None:
    moved = None
    if kind == "forward":
        with torch.no_grad():
            numbers = sum(x.numel() for x in (*inputs, product(*inputs)))
        moved = numbers * inputs[0].element_size()
    record(benchmark, passes(product, inputs)[kind], "row", len(inputs[0]), moved)


@every_thread_count
@every_pass
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda name: name.replace(" ", "_"))
@pytest.mark.parametrize("problem", WEIGHTED)
def bench_fully_connected(benchmark, problem, library, kind, threads):
    torch.set_num_threads(threads)
    ours = weighted_products(problem)
    theirs = to_e3nn(ours["mul_ir"])
    inputs = operands(ours["mul_ir"], ROWS, ROWS)
    agree(ours["mul_ir"](*inputs), theirs(*inputs))
    if library.startswith("cuEquivariance"):
        pytest.importorskip("cuequivariance_torch", reason="cuEquivariance is an optional extra")
        product = cue_product(WEIGHTED[problem])
    else:
        known = {"ours": ours["mul_ir"], "ours ir_mul": ours["ir_mul"], "e3nn": theirs}
        product = known[library]
    run(benchmark, product, inputs, kind)


@every_thread_count
@every_pass
@pytest.mark.parametrize("library", ["ours", "e3nn"])
@pytest.mark.parametrize("problem", UNWEIGHTED, ids=lambda name: name.replace(" ", "_"))
def bench_unweighted(benchmark, problem, library, kind, threads):
    ours = UNWEIGHTED[problem]("mul_ir")
    compare_two(benchmark, ours, ROWS, library, kind, threads)


@every_thread_count
@every_pass
@pytest.mark.parametrize("library", ["ours", "e3nn"])
@pytest.mark.parametrize("lmax", [2, 3, 4, 5, 6], ids=lambda lmax: f"L{lmax}")
def bench_full(benchmark, lmax, library, kind, threads):
    ours = compared_product("full_sparse even", lmax, "mimo")
    compare_two(benchmark, ours, FULL_ROWS, library, kind, threads)


def compare_two(benchmark, ours, rows, library, kind, threads):
    torch.set_num_threads(threads)
    theirs = to_e3nn(ours)
    inputs = operands(ours, rows, rows)[:2]
    agree(ours(*inputs), theirs(*inputs))
    run(benchmark, {"ours": ours, "e3nn": theirs}[library], inputs, kind)
