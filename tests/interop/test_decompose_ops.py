from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch.export import Dim, export

from equigeo.interop import decompose_ops
from equigeo.nn import Linear
from equigeo.tensor_products import SymmetricContraction
from tests.modes.derivatives import SAME
from tests.modes.row import Row
from tests.modes.table import ROWS

BY_NAME = {row.name: row for row in ROWS}


def exported(row: Row) -> tuple[torch.nn.Module, torch.export.ExportedProgram]:
    """A layer and its program, for any number of rows where it has rows."""
    bound, inputs = row.bound(), row.inputs()
    axes = tuple({0: Dim("rows")} if row.rows else None for _ in inputs)
    return bound, export(bound, inputs, dynamic_shapes=(axes,))


def more_rows(row: Row) -> tuple[torch.Tensor, ...]:
    """Inputs of another length than the program was made with."""
    return tuple(torch.cat([x, x.flip(0)]) if row.rows else x for x in row.inputs())


@pytest.mark.parametrize(
    "name",
    [
        "nn.Linear",
        "tensor_products.SphericalHarmonics",
        "tensor_products.ChannelwiseTensorProduct in mul_ir",
        "tensor_products.SymmetricContraction",
        "mesh.PrimalDualConv",  # its reference calls another op
    ],
)
def test_a_decomposed_layer_computes_the_same_for_any_number_of_rows(name):
    layer, program = exported(BY_NAME[name])
    inputs = more_rows(BY_NAME[name])
    before = str(program.graph)
    assert "equigeo" in before
    found = decompose_ops(program)
    assert "equigeo" not in str(found.graph)
    assert str(program.graph) == before
    torch.testing.assert_close(found.module()(*inputs), layer(*inputs), **SAME)


def test_names_and_weights_stay():
    layer = SymmetricContraction("2x0e+2x1o", "2x0e", 2, 3)
    x, index = torch.randn(4, 8), torch.tensor([0, 2, 1, 0])
    program = decompose_ops(export(layer, (x,), {"element": index}))
    assert program.graph_signature.user_inputs == ("x", "element")
    assert program.state_dict["weight"].equal(layer.weight)
    torch.testing.assert_close(program.module()(x, element=index), layer(x, index))


def test_a_decomposed_program_runs_without_this_library(tmp_path):
    layer, x = Linear("2x0e+1x1o", "1x0e+1x1o"), torch.randn(4, 5)
    torch.export.save(decompose_ops(export(layer, (x,))), tmp_path / "linear.pt2")
    torch.save((x, layer(x).detach()), tmp_path / "problem.pt")
    script = (
        "import sys, torch; x, want = torch.load('problem.pt')\n"
        "torch.testing.assert_close(torch.export.load('linear.pt2').module()(x), want)\n"
        "assert 'equigeo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)


def test_what_is_no_program_is_refused():
    with pytest.raises(TypeError, match=r"got Linear: torch\.export\.export\(module, args\)"):
        decompose_ops(Linear("1x0e", "1x0e"))
