"""Tables that are no state, and helpers of modules."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from equigeo.nn import Linear, Tables
from equigeo.nn.module import evaluating
from equigeo.nn.state import stateless
from tests.modes.product_rows import product_rows
from tests.tier import tier
from tests.wrong_inputs import refused

THIRD = torch.tensor([1 / 3], dtype=torch.float64)


def test_tables_stay_exact_through_casts_copies_and_the_meta_device():
    tables = Tables(third=THIRD)
    for cast in (tables.half, tables.float, tables.bfloat16):
        cast()
        assert tables.double()["third", torch.float64].equal(THIRD)
    tables = tables.float()
    other = copy.deepcopy(tables).double()
    assert tables["third", torch.float32].dtype == torch.float32
    assert tables["third", torch.float64].equal(THIRD)
    assert other["third", torch.float64].equal(THIRD)
    assert not tables.state_dict()
    filled = Tables(third=THIRD).double().to("meta").to_empty(device="cpu")
    assert filled["third", torch.float64].equal(THIRD)


def test_tables_are_read_in_compiled_code():
    tables = Tables(third=THIRD)
    read = torch.compile(lambda x: x * tables["third", x.dtype], fullgraph=True, backend="eager")
    assert read(torch.ones(1, dtype=torch.float64)).equal(THIRD)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_scripts_are_refused_with_the_remedy():
    with pytest.raises(NotImplementedError, match=r"export them by torch\.export\.export"):
        torch.jit.script(Linear("2x0e", "2x0e"))


def test_stateless_buffers_leave_the_state_and_follow_casts():
    module = nn.Sequential(nn.Identity())
    module[0].register_buffer("table", torch.ones(2))
    assert stateless(module) is module
    assert not module.state_dict()
    module.load_state_dict({})
    assert module.double()[0].table.dtype == torch.float64
    message = r"Linear must have no parameters, has \['weight', 'bias"
    refused(message, stateless, nn.Linear(2, 2))
    message = r"table third must be float64, got torch\.float32"
    refused(message, Tables, third=THIRD.float(), error=TypeError)


def test_evaluating_restores_every_part():
    module = nn.Sequential(nn.Dropout(), nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)))
    module[1][0].eval()  # frozen by the caller
    before = [part.training for part in module.modules()]
    with evaluating(module):
        assert not any(part.training for part in module.modules())
    assert [part.training for part in module.modules()] == before
    with pytest.raises(RuntimeError, match="inside"), evaluating(module):
        raise RuntimeError("inside")
    assert [part.training for part in module.modules()] == before


ROWS = {row.name: row for row in product_rows()}
FEW = ["nn.Gate", "tensor_products.SymmetricContraction"]


def test_layers_keep_their_tables_exact_through_casts():
    for name, row in ROWS.items():
        bound, inputs = row.bound(), row.inputs()
        want, state = bound(*inputs), copy.deepcopy(bound.state_dict())
        bound.half().double().load_state_dict(state)
        found, named = bound(*inputs), partial("{}: {}".format, name)
        torch.testing.assert_close(found, want, rtol=0, atol=0, msg=named)


@pytest.mark.parametrize("name", tier(FEW, sorted(name for name in ROWS if ROWS[name].rows)))
def test_exported_layers_take_any_number_of_rows(name):
    bound, inputs = ROWS[name].bound(), ROWS[name].inputs()
    shapes = (tuple({0: torch.export.Dim("rows")} for _ in inputs),)
    program = torch.export.export(bound, inputs, dynamic_shapes=shapes).module()
    for more in (3, 9):
        given = tuple(x.repeat(3, *[1] * (x.ndim - 1))[:more] for x in inputs)
        torch.testing.assert_close(program(*given), bound(*given))
