"""Every op beside its reference implementation, on the problems of the self-test.

Run with ``make bench``. These are small: what they tell is that each kernel runs, gives what the
reference gives, and costs less. Sizes of models are in the other files.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bench.record import record
from equigeo.ops.runtime.declare import declared, reference_of
from equigeo.ops.self_test import worst_deviation
from equigeo.ops.self_test_cases import all_cases

CASES = {case.op: case for case in all_cases()}
BODIES = {"op": declared, "reference": reference_of}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("op", CASES)
def bench_op(benchmark, op, body):
    torch.set_num_threads(1)
    case = CASES[op]
    assert worst_deviation(case, torch.device("cpu")).is_tolerated
    features = [x.float() for x in case.features]
    rest = [x.float() if isinstance(x, Tensor) and x.is_floating_point() else x for x in case.rest]
    call = BODIES[body](op)
    with torch.no_grad():
        record(benchmark, lambda: call(*features, *rest), "call", 1)
