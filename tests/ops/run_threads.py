"""Runs the op table in two threads, for the thread sanitizer: ``make tsan``.

Kernels that are built with it divide their rows among two threads of their own, see
``csrc/register/cpu/parallel_for.h``. Besides, two threads of Python make every call at once, on
the same arguments. ``--planted`` is the control: one call whose table makes all rows of a gradient
one and the same, which the sanitizer must report.
"""

import itertools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

from tests.ops.op_table import OPS, Op
from tests.ops.problems import Problem
from tests.ops.test_ops import DTYPES, arguments, derivatives

# Several chunks of every op.
PROBLEM = Problem("chunks", 600, 520, 2400, heads=2, channels=17)
ORDER = 2  # place of the rows of edges among the tensors of a graph


def run_row(op: Op, dtype: torch.dtype) -> None:
    """Call an op and the op of its gradient in two threads at once."""
    features, rest = arguments(op, PROBLEM, dtype)
    start = threading.Barrier(2)

    def run(_: int) -> None:
        start.wait()
        derivatives(op.call, features, rest, orders=1)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(2)))


def run_planted() -> None:
    """Let all edges have the same row, which the threads of a kernel then both write."""
    op = next(op for op in OPS if op.name == "channelwise_conv_backward")
    features, rest = arguments(op, PROBLEM, torch.float32)
    rest[ORDER] = torch.zeros_like(rest[ORDER])
    op.call(*features, *rest)


if __name__ == "__main__":
    if "--planted" in sys.argv[1:]:
        run_planted()
    else:
        for op, dtype in itertools.product(OPS, DTYPES):
            run_row(op, dtype)
