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

THIRD = torch.tensor([1 / 3], dtype=torch.float64)


def test_a_cast_down_and_up_loses_nothing():
    tables = Tables(third=THIRD)
    for cast in (tables.half, tables.float, tables.bfloat16):
        cast()
        assert tables.double()["third", torch.float64].equal(THIRD)


def test_a_table_meets_features_of_another_dtype_exactly():
    tables = Tables(third=THIRD).float()
    assert tables["third", torch.float32].dtype == torch.float32
    assert tables["third", torch.float64].equal(THIRD)


def test_copies_share_no_buffer_and_nothing_is_saved():
    tables = Tables(third=THIRD)
    other = copy.deepcopy(tables).double()
    assert tables["third", torch.float32].dtype == torch.float32
    assert other["third", torch.float64].equal(THIRD)
    assert not tables.state_dict()


def test_tables_come_back_from_the_meta_device():
    tables = Tables(third=THIRD).double().to("meta").to_empty(device="cpu")
    assert tables["third", torch.float64].equal(THIRD)


def test_tables_are_read_in_compiled_code():
    tables = Tables(third=THIRD)
    read = torch.compile(lambda x: x * tables["third", x.dtype], fullgraph=True, backend="eager")
    assert read(torch.ones(1, dtype=torch.float64)).equal(THIRD)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_scripts_are_refused_with_the_remedy():
    with pytest.raises(NotImplementedError, match=r"export them by torch\.export\.export"):
        torch.jit.script(Linear("2x0e", "2x0e"))


def test_coarse_tables_are_refused():
    with pytest.raises(TypeError, match=r"table third must be float64, got torch\.float32"):
        Tables(third=THIRD.float())


def test_buffers_leave_the_state_and_still_follow_casts():
    module = nn.Sequential(nn.Identity())
    module[0].register_buffer("table", torch.ones(2))
    assert stateless(module) is module
    assert not module.state_dict()
    module.load_state_dict({})
    assert module.double()[0].table.dtype == torch.float64


def test_parameters_are_refused_by_name():
    with pytest.raises(ValueError, match=r"Linear must have no parameters, has \['weight', 'bias"):
        stateless(nn.Linear(2, 2))


def test_every_part_comes_back_as_it_was():
    module = nn.Sequential(nn.Dropout(), nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)))
    module[1][0].eval()  # frozen by the caller
    before = [part.training for part in module.modules()]
    with evaluating(module):
        assert not any(part.training for part in module.modules())
    assert [part.training for part in module.modules()] == before


def test_an_error_inside_changes_nothing():
    module = nn.Dropout()
    with pytest.raises(RuntimeError, match="inside"), evaluating(module):
        raise RuntimeError("inside")
    assert module.training


def test_layers_keep_their_tables_exact_through_casts():
    for row in product_rows():
        bound, inputs = row.bound(), row.inputs()
        want, state = bound(*inputs), copy.deepcopy(bound.state_dict())
        bound.half().double().load_state_dict(state)
        found, named = bound(*inputs), partial("{}: {}".format, row)
        torch.testing.assert_close(found, want, rtol=0, atol=0, msg=named)
