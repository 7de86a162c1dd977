import pytest
import torch

from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.ops.runtime.signature import Signature, by_position, named_parameters, picker

SCHEMA = "op(Tensor x, Tensor? weight, int[] dims, float eps, bool flag) -> (Tensor, Tensor)"
NAMES = ("x", "weight", "dims", "eps", "flag")


def test_optional_tensors_are_tensors_and_lists_are_not():
    signature = Signature.parse(SCHEMA)
    assert signature == Signature("op", NAMES, frozenset({"x", "weight"}), 2)
    assert Signature.parse("op(Tensor x) -> Tensor") == Signature("op", ("x",), frozenset("x"), 1)


def test_every_declared_schema_is_read_as_pytorch_reads_it():
    for name, schema in SCHEMAS.items():
        signature, theirs = (
            Signature.parse(schema),
            getattr(torch.ops.equigeo, name).default._schema,
        )
        assert signature.name == name
        assert signature.arguments == tuple(argument.name for argument in theirs.arguments)
        tensors = {a.name for a in theirs.arguments if "Tensor" in str(a.type)}
        assert signature.tensors == tensors
        assert signature.results == len(theirs.returns)


@pytest.mark.parametrize(
    "schema",
    [
        "op",
        "op(Tensor x)",
        "op(Tensor x) -> int",
        "op(Tensor x) -> ()",
        "op(Tensor x, *, bool flag) -> Tensor",
        "op(Tensor x, float eps=1e-6) -> Tensor",
        "op(x) -> Tensor",
        "op() -> Tensor",
    ],
)
def test_another_form_is_refused(schema):
    with pytest.raises(ValueError, match="schema must be name"):
        Signature.parse(schema)


def test_values_go_where_they_are_named():
    def function(flag, x):
        return flag, x

    assert by_position(function, NAMES)("x", "w", [1], 0.1, True) == (True, "x")
    assert function(flag=1, x=2) == (1, 2)


def test_the_rest_comes_in_order():
    def function(dims, **rest):
        return dims, list(rest.items())

    want = [("x", 1), ("weight", 2), ("eps", 4), ("flag", 5)]
    assert by_position(function, NAMES)(1, 2, 3, 4, 5) == (3, want)


def test_a_function_of_all_in_order_is_left_alone():
    def function(x, weight):
        return x, weight

    assert by_position(function, ["x", "weight"]) is function
    assert by_position(function, ["weight", "x"])(1, 2) == (2, 1)


def test_an_unknown_name_is_refused():
    def function(x, wieght):
        return x, wieght

    with pytest.raises(ValueError, match=r"function takes wieght, which is none of x, weight"):
        by_position(function, ["x", "weight"])


def test_positions_can_be_left_to_something_else():
    def function(grad, *others, x, **rest):
        return grad, others, x, rest

    assert named_parameters(function, NAMES, NAMES[:2], keyword_only=True) == ["x", "weight"]
    with pytest.raises(ValueError, match="takes grad"):
        named_parameters(function, NAMES, NAMES)


@pytest.mark.parametrize("positions", [[], [1], [2, 0], [0, 0, 1]])
def test_items_are_picked_as_a_tuple(positions):
    assert picker(positions)("abc") == tuple("abc"[p] for p in positions)
