"""What callers can ask of loaded libraries; ``tests/build`` tests how they are loaded."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from equigeo.ops import kernels_info, runs_compiled
from equigeo.ops.runtime.declare import SCHEMAS

CPU, META = torch.device("cpu"), torch.device("meta")
needs_kernels = pytest.mark.skipif(kernels_info()["cpu"] is None, reason="no compiled kernels")


def test_products_are_compiled_on_the_cpu_with_and_without_a_library():
    assert runs_compiled("copywise_product", CPU)
    assert runs_compiled("fully_connected_product", CPU)
    code = """
import torch, equigeo.ops as ops
assert ops.kernels_info()["cpu"] is None
assert ops.runs_compiled("copywise_product", torch.device("cpu"))
"""
    subprocess.run(
        [sys.executable, "-c", code],
        env={"EQUIGEO_KERNELS": "0", "PATH": ""},
        cwd=Path(__file__).parents[3],
        check=True,
    )


@needs_kernels
def test_an_op_that_is_not_compiled_says_so():
    assert {name for name in SCHEMAS if not runs_compiled(name, CPU)} == {"principal_axes_nd"}


def test_no_op_is_compiled_for_a_device_without_a_library():
    assert not any(runs_compiled(name, META) for name in SCHEMAS)


def test_the_answer_is_a_constant_under_compile():
    def choose(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if runs_compiled("copywise_product", x.device) else x - 1

    compiled = torch.compile(choose, fullgraph=True, backend="eager")
    assert compiled(torch.zeros(())) == 1


def test_an_unknown_op_is_named():
    with pytest.raises(ValueError, match="op_name must be an op of equigeo, got 'product'"):
        runs_compiled("product", CPU)
