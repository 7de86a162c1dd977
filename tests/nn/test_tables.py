from __future__ import annotations

import copy

import pytest
import torch

from equigeo.nn import Tables

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


def test_coarse_tables_are_refused():
    with pytest.raises(TypeError, match=r"table third must be float64, got torch\.float32"):
        Tables(third=THIRD.float())
