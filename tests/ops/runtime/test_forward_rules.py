import torch

from equigeo.ops.runtime.declare import declared
from equigeo.ops.runtime.forward_rules import gradients_linear_in, linear_in


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
