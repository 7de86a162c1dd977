"""Tolerances come from precision and length."""

import math

import pytest
import torch

from equigeo.graphs import EdgeIndex
from equigeo.ops import gather_sum, symmetric_eigen
from equigeo.ops.runtime.declare import declared
from equigeo.ops.runtime.forward_rules import gradients_linear_in, linear_in
from equigeo.testing import tolerance
from tests.wrong_inputs import refused


def test_tangents_take_the_place_of_operands_one_at_a_time(monkeypatch):
    ops = {"product": lambda x, y, n: n * x * y}
    monkeypatch.setattr("equigeo.ops.runtime.forward_rules.declared", ops.__getitem__)
    rule = linear_in("product", ("x", "y"))
    point = {"x": torch.tensor(2.0), "y": torch.tensor(3.0), "n": 10}
    assert rule({"x": torch.tensor(1.0)}, **point) == 30
    assert rule({"x": torch.tensor(1.0), "y": torch.tensor(1.0)}, **point) == 50
    assert rule({}, **point) is None


def test_a_derivative_does_not_depend_on_its_own_operand(monkeypatch):
    # of F = g x y: g y and g x
    ops = {"gradients": lambda g, x, y: (g * y, g * x)}
    monkeypatch.setattr("equigeo.ops.runtime.forward_rules.declared", ops.__getitem__)
    rule = gradients_linear_in("gradients", ("g", "x", "y"))
    point = {"g": torch.tensor(2.0), "x": torch.tensor(3.0), "y": torch.tensor(5.0)}
    one = torch.tensor(1.0)
    assert rule({"x": one}, **point) == [None, 2]
    assert rule({"g": one}, **point) == [5, 3]
    assert rule({"g": one, "y": one}, **point) == [7, 3]


def test_ops_are_found_by_name():
    assert callable(declared("gather_sum"))


def test_sparse_tensors_are_refused_in_a_sentence():
    eigen = torch.eye(3)[None]
    for sparse in (eigen.to_sparse(), eigen.to_sparse().requires_grad_()):
        with pytest.raises(TypeError, match=r"matrix must be strided, .* of layout torch\.sp"):
            symmetric_eigen(sparse)


def test_sparse_indices_are_refused_too():
    edges = EdgeIndex.from_edges(torch.tensor([[0, 1], [1, 1]]), 2, 2)
    indices = [edges.source.to_sparse(), edges.ptr, edges.back_target, edges.back_ptr]
    with pytest.raises(TypeError, match=r"layout torch\.sparse_coo"):
        gather_sum(torch.ones(2, 3), *indices)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.complex64])
def test_tolerance_is_32_roundings_at_one_term(dtype):
    eps = torch.finfo(dtype).eps
    assert tolerance(dtype) == {"rtol": 32 * eps, "atol": 32 * eps}


def test_tolerance_grows_with_the_root_of_the_length_and_with_the_condition():
    base = tolerance(torch.float32)["rtol"]
    assert tolerance(torch.float32, 100)["atol"] == pytest.approx(10 * base)
    assert tolerance(torch.float32, 100, 7.0)["rtol"] == pytest.approx(70 * base)


def test_a_sum_of_many_terms_stays_within_its_tolerance():
    terms = 10_000
    x = torch.rand(terms, generator=torch.Generator().manual_seed(0))
    naive = x.cumsum(0)[-1] / terms
    exact = x.double().mean().float()
    torch.testing.assert_close(naive, exact, **tolerance(torch.float32, terms))


def test_bad_arguments_are_refused():
    refused(r"floating or complex, got torch\.int64", tolerance, torch.int64, error=TypeError)
    for bad in (0, -1, math.inf, math.nan):
        refused("terms must be finite and at least 1", tolerance, torch.float32, terms=bad)
        refused("condition must be finite and at least 1", tolerance, torch.float32, condition=bad)
