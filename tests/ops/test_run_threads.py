import threading

import pytest
import torch

from tests.ops.op_table import OPS
from tests.ops.run_threads import in_two_threads, run_planted, run_row


def test_two_threads_run_at_once():
    both = threading.Barrier(2, timeout=20)
    in_two_threads(both.wait)


def test_what_a_thread_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        in_two_threads(lambda: 1 / 0)


def test_ops_run_and_what_is_planted_is_no_error_without_the_sanitizer():
    run_row(next(op for op in OPS if op.name == "gather_sum"), torch.float32)
    run_planted()
