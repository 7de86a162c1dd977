from dataclasses import dataclass

import numpy as np
import pytest
import torch
import trimesh
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from equigeo._core.brief import brief_repr
from equigeo._core.checks import as_indices, as_tensor, check_like, check_shape
from equigeo.graphs.edge_index import cloud_offsets
from tests.wrong_inputs import refused

NUMBERS = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (NUMBERS, torch.float64),
        (NUMBERS.astype(np.float32), torch.float32),
        (NUMBERS.astype(np.float16), torch.float16),
        (NUMBERS.astype(np.longdouble), torch.float64),
        (NUMBERS.astype(">f8"), torch.float64),
        (NUMBERS.astype(np.uint8), torch.uint8),
        (NUMBERS.astype(np.uint16), torch.int64),
        (NUMBERS.astype(np.uint32), torch.int64),
        (NUMBERS.astype(np.uint64), torch.int64),
        (NUMBERS.astype(np.int32), torch.int32),
        (NUMBERS.astype(bool), torch.bool),
        (NUMBERS.astype(complex), torch.complex128),
        (NUMBERS[::-1, ::2], torch.float64),
        (NUMBERS.T, torch.float64),
        (NUMBERS[:0], torch.float64),
    ],
    ids=lambda x: f"{x.dtype}{x.shape}" if isinstance(x, np.ndarray) else str(x),
)
def test_arrays_become_tensors_of_the_same_numbers(array: np.ndarray, dtype: torch.dtype):
    found = as_tensor(array, "x")
    assert found.dtype == dtype
    assert np.array_equal(found.numpy(), array.astype(found.numpy().dtype))


def test_arrays_are_copied_and_become_like_a_tensor_and_tensors_are_left_alone():
    array = np.zeros(3)
    array.flags.writeable = False
    as_tensor(array, "x")[0] = 1
    assert array[0] == 0
    x = torch.zeros(2)
    assert as_tensor(x, "x", like=torch.zeros(1, dtype=torch.float64)) is x
    like = torch.zeros(1, dtype=torch.float32)
    assert as_tensor(NUMBERS, "x", like=like).dtype == torch.float32
    assert as_tensor(NUMBERS.astype(int), "x", like=like).dtype == torch.int64
    vertices = trimesh.creation.box().vertices
    assert type(vertices) is not np.ndarray
    assert isinstance(as_tensor(vertices, "vertices"), Tensor)


def test_values_that_are_no_arrays_of_numbers_raise():
    for value, message in (
        ([1, 2], "x must be a Tensor or a NumPy array, got list"),
        (None, "x must be a Tensor or a NumPy array, got None"),
        (3.0, "got float"),
        (np.array(["a"]), "x must hold numbers, got a NumPy array of <U1"),
        (np.array([None]), "x must hold numbers, got a NumPy array of object"),
    ):
        refused(message, as_tensor, value, "x", error=TypeError)
    large = np.array([2**63], np.uint64)
    refused("x must fit into int64, got 9223372036854", as_tensor, large, "x")


def test_arrays_of_any_integers_are_indices_and_tensors_of_int64_alone():
    for dtype in (np.int32, np.uint8, np.int64):
        assert as_indices(np.array([0, 2], dtype), "ptr").dtype == torch.int64
    message = r"ptr must be int64, got torch\.int32"
    refused(message, as_indices, torch.zeros(2, dtype=torch.int32), "ptr", error=TypeError)
    refused(r"ptr must be int64, got torch\.float64", as_indices, NUMBERS, "ptr", error=TypeError)


def test_shapes_are_compared():
    x = torch.zeros(2, 3)
    check_shape(x, "x", ("rows", 3))
    refused(r"x must be \(rows,\), got \(2, 3\)", check_shape, x, "x", ("rows",))
    refused(r"x must be \(rows, 4\), got \(2, 3\)", check_shape, x, "x", ("rows", 4))
    refused(r"x must be \(3, columns\), got \(2, 3\)", check_shape, x, "x", (3, "columns"))


def test_inputs_have_the_dtype_and_device_of_weights_unless_under_autocast():
    weight, low = torch.zeros(1), torch.zeros(1, dtype=torch.bfloat16)
    message = "x must be on cpu as the weights are, got meta"
    refused(message, check_like, weight.to("meta"), "x", weight)
    message = r"x must be torch\.float32 .* got torch\.bfloat16"
    refused(message, check_like, low, "x", weight, error=TypeError)
    with torch.autocast("cpu", torch.bfloat16):
        check_like(low, "x", weight)
        refused(r"got torch\.int64", check_like, weight.long(), "x", weight, error=TypeError)


SIZES = st.lists(st.integers(0, 4), max_size=5)


@given(SIZES)
def test_both_ways_of_saying_what_the_clouds_are_agree(sizes):
    while sizes and not sizes[-1]:  # a batch does not know of empty clouds at its end
        sizes.pop()
    want = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    rows, batch = sum(sizes), torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes).long())
    assert cloud_offsets(rows, batch=batch).tolist() == want
    assert cloud_offsets(rows, batch=batch.numpy().astype(np.int32)).tolist() == want
    assert cloud_offsets(rows, ptr=np.array(want)).tolist() == want
    assert cloud_offsets(rows) is None
    refused("describe the same", cloud_offsets, 1, torch.zeros(1).long(), torch.tensor([0, 1]))


@dataclass(repr=False)
class Result:
    values: torch.Tensor
    table: np.ndarray
    name: str
    more: object = None

    __repr__ = brief_repr


def test_numbers_are_shown_by_their_shape():
    one = Result(torch.zeros(1000, 3, dtype=torch.float64), np.zeros(5, np.int64), "one")
    text = "Result(values=(1000, 3) float64, table=(5,) int64, name='one')"
    assert repr(one) == text
    two = Result(torch.zeros(0), np.zeros(0), "two", one)
    assert repr(two) == f"Result(values=(0,) float32, table=(0,) float64, name='two', more={text})"
