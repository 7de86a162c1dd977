"""Columns of programs: traced, compiled, exported and packaged, each against plain eager mode."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.fx.experimental.proxy_tensor import make_fx

from equigeo.interop import decompose_ops
from equigeo.ops import kernels_info
from equigeo.ops.runtime.declare import SCHEMAS
from tests.modes.derivatives import SAME, gradients, loss_gradients, scalar
from tests.modes.row import Bound, Row, assert_close, count
from tests.tier import FULL, tier

Tensors = tuple[Tensor, ...]


def compiled(row: Row) -> None:
    """Values and gradients as one graph without breaks, with a dynamic batch size."""
    bound, inputs = row.bound(), row.inputs()
    counters["stats"].clear()
    program = _assert_compiles(bound, inputs, "aot_eager")
    if not row.rows:
        return
    for times in MORE_ROWS:
        more = tuple(x.repeat(times, *[1] * (x.ndim - 1)) for x in inputs)
        assert_close(loss_gradients(program, more), loss_gradients(bound, more), **SAME)
    # PyTorch takes sizes that are equal at first, of rows and of channels, for one size ("duck
    # sizing"), and compiles once more where they come apart. Then all numbers of rows are taken.
    programs = counters["stats"]["unique_graphs"]
    assert programs <= 2, f"{programs} programs for {1 + len(MORE_ROWS)} numbers of rows"


MORE_ROWS = (2, 3, 5)
"""How many times as many rows a program is given as it was compiled for."""


def compiled_double_backward(row: Row) -> None:
    """A traced program of values and gradients, compiled and differentiated again."""
    _assert_compiles_twice(row.bound(), row.inputs(), "aot_eager")


def compiled_grad(row: Row) -> None:
    """``torch.func.grad`` inside ``torch.compile``."""
    bound, inputs = row.bound(), row.inputs()

    def slopes(*given: Tensor) -> Tensors:
        def loss(*given: Tensor) -> Tensor:
            return sum((r.square().sum() for r in bound(*given)), inputs[0].new_zeros(()))

        return torch.func.grad(loss, argnums=tuple(range(len(inputs))))(*given)

    torch._dynamo.reset()
    assert_close(torch.compile(slopes, backend="eager")(*inputs), slopes(*inputs), **SAME)


def exported(row: Row) -> None:
    """``torch.export``, strict and non-strict, and decomposed into PyTorch's own ops."""
    bound, inputs = row.bound(), row.inputs()
    for strict in tier([True], [False, True]):
        program = torch.export.export(bound, inputs, strict=strict)
        if row.covers in SCHEMAS:
            assert f"equigeo.{row.covers}" in str(program.graph), "the op was taken apart"
        assert_close(program.module()(*inputs), bound(*inputs), **SAME)
    if FULL:
        assert_close(decompose_ops(program).module()(*inputs), bound(*inputs), **SAME)


def inductor(*rows: Row) -> None:
    """Values and gradients compiled to machine code by ``torch.compile``."""
    several = Several(rows)
    _assert_compiles(several, several.inputs, "inductor")
    _assert_compiles_twice(several, several.inputs, "inductor")


def aot_inductor(*rows: Row) -> None:
    """An AOTInductor package in a process that loads only the kernel library."""
    several = Several(rows)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        program = torch.export.export(several, several.inputs)
        package = str(Path(folder, "package.pt2"))
        torch._inductor.aoti_compile_and_package(program, package_path=package)
        problem = several.inputs, several(*several.inputs), SAME
        torch.save(problem, Path(folder, "problem.pt"))
        library = kernels_info()["cpu"] or ""
        command = [sys.executable, "-c", _RUN, library, folder]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    count(problem)
    if ran.returncode:
        raise (AssertionError if "AssertionError" in ran.stderr else RuntimeError)(ran.stderr)


_RUN = """
import sys, torch
library, folder = sys.argv[1:]
if library:
    torch.ops.load_library(library)
run = torch._inductor.aoti_load_package(folder + "/package.pt2")
inputs, want, tolerances = torch.load(folder + "/problem.pt")
torch.testing.assert_close(tuple(run(*inputs)), want, **tolerances)
assert not any(name.split(".")[0] == "equigeo" for name in sys.modules)
"""


def _assert_compiles(bound: Bound, inputs: Tensors, backend: str) -> Any:
    torch._dynamo.reset()
    program = torch.compile(bound, fullgraph=True, dynamic=True, backend=backend)
    assert_close(loss_gradients(program, inputs), loss_gradients(bound, inputs), **SAME)
    return program


def _assert_compiles_twice(bound: Bound, inputs: Tensors, backend: str) -> None:
    loss = scalar(bound, inputs)

    def slopes(*given: Tensor) -> Tensors:
        live = [x.requires_grad_() if x.is_leaf and not x.requires_grad else x for x in given]
        return gradients(loss, tuple(live))

    traced = make_fx(slopes)(*(x.clone().requires_grad_() for x in inputs))
    for node in list(traced.graph.nodes):
        # What a backward pass keeps is recorded as detached, which would cut second derivatives.
        if node.target is torch.ops.aten.detach.default:
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    traced.recompile()
    torch._dynamo.reset()
    program = torch.compile(traced, backend=backend)
    assert_close(loss_gradients(program, inputs), loss_gradients(slopes, inputs), **SAME)


class Several(Bound):
    """Several rows as one: a program of all of them takes little longer than one of each."""

    def __init__(self, rows: Sequence[Row]) -> None:
        bounds, problems = [row.bound() for row in rows], [row.inputs() for row in rows]
        super().__init__(nn.ModuleList(bounds), self._call_all)
        self.counts = [len(problem) for problem in problems]
        self.inputs = tuple(x for problem in problems for x in problem)

    def _call_all(self, bounds: nn.ModuleList, *inputs: Tensor) -> Tensors:
        results: Tensors = ()
        for bound, number in zip(bounds, self.counts, strict=True):
            own, inputs = inputs[:number], inputs[number:]
            results = (*results, *bound(*own))
        return results


MACHINE_CODE = [inductor, aot_inductor]
COLUMNS = [compiled, compiled_double_backward, compiled_grad, exported, *MACHINE_CODE]
