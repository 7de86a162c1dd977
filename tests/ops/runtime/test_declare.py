"""Ops declared for these tests alone; those of the package are tested in ``test_ops.py``."""

import math
from collections.abc import Iterator
from itertools import count

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.testing import assert_close

from equigeo.graphs import EdgeIndex
from equigeo.ops import gather_sum, principal_axes, symmetric_eigen
from equigeo.ops.runtime.batching import blocks, channels, in_front, share_the_rest
from equigeo.ops.runtime.declare import SCHEMAS, declare, like
from equigeo.ops.runtime.forward_rules import gradients_linear_in, linear_in
from equigeo.ops.runtime.tape import Signature, Tape, by_position, named_parameters, picker
from equigeo.testing import tolerance
from tests.wrong_inputs import refused

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
    refused("schema must be name", Signature.parse, schema)


def test_values_go_where_they_are_named_and_the_rest_comes_in_order():
    def two(flag, x):
        return flag, x

    def rest(dims, **others):
        return dims, list(others.items())

    assert by_position(two, NAMES)("x", "w", [1], 0.1, True) == (True, "x")

    def function(x, weight):
        return x, weight

    want = [("x", 1), ("weight", 2), ("eps", 4), ("flag", 5)]
    assert by_position(rest, NAMES)(1, 2, 3, 4, 5) == (3, want)
    assert by_position(function, ["x", "weight"]) is function  # all in order
    assert by_position(function, ["weight", "x"])(1, 2) == (2, 1)
    unknown = "function takes weight, which is none of x, wieght"
    refused(unknown, by_position, function, ["x", "wieght"])
    signature = Signature.parse("f(Tensor x) -> Tensor")
    rules = (lambda grad: {}), (lambda tangents, *, y: None)
    refused("takes y, which is none of x", Tape, signature, *rules, (), ())


def test_positions_can_be_left_to_something_else():
    def function(grad, *others, x, **rest):
        return grad, others, x, rest

    assert named_parameters(function, NAMES, NAMES[:2], keyword_only=True) == ["x", "weight"]
    refused("takes grad", named_parameters, function, NAMES, NAMES)


@pytest.mark.parametrize("positions", [[], [1], [2, 0], [0, 0, 1]])
def test_items_are_picked_as_a_tuple(positions):
    assert picker(positions)("abc") == tuple("abc"[p] for p in positions)


def test_a_missing_batch_axis_is_expanded_and_another_moved():
    x = torch.arange(6.0).view(2, 3)
    assert in_front(x, None, 4).shape == (4, 2, 3)
    assert torch.equal(in_front(x, 1, 3), x.mT)


def test_what_is_shared_cannot_be_batched():
    x, table = torch.ones(2, 3), torch.arange(6.0).view(3, 2)
    share_the_rest({"x": x, "table": table}, {"x": 0, "table": None}, allowed=["x"])
    with pytest.raises(NotImplementedError, match="can batch x here, but not table of different"):
        share_the_rest({"x": x, "table": table}, {"x": 0, "table": 1}, allowed=["x"])
    equal = {"x": x, "table": table[:, :1].repeat(1, 2)}
    given, axes = share_the_rest(equal, {"x": 0, "table": 1}, allowed=["x"])
    assert axes == {"x": 0, "table": None}
    assert torch.equal(given["table"], table[:, 0])


def test_blocks_lie_one_after_another_and_an_index_counts_rows_or_segments():
    seen = {}

    def op(**given):
        seen.update(given)
        return given["x"]

    given = {
        "x": torch.zeros(2, 3, 1),
        "index": torch.tensor([2, 0]),
        "target": torch.tensor([0, 1]),
        "ptr": torch.tensor([0, 1, 2]),
    }
    rule = blocks(["x"], indices={"index": "x", "target": "ptr"}, offsets=["ptr"])
    axes = dict.fromkeys(given, None) | {"x": 0}
    result, dim = rule(lambda *values: op(**dict(zip(given, values, strict=True))), 2, given, axes)
    assert (result.shape, dim) == ((2, 3, 1), 0)
    assert seen["index"].tolist() == [2, 0, 5, 3]
    assert seen["target"].tolist() == [0, 1, 2, 3]
    assert seen["ptr"].tolist() == [0, 1, 2, 3, 4]


def test_channels_of_a_batch_lie_side_by_side():
    x = torch.arange(12.0).view(2, 3, 2)
    result, dim = channels(["x"])(lambda x: 2 * x, 2, {"x": x}, {"x": 0})
    assert_close(result.movedim(dim, 0), 2 * x)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_batches_of_any_size(size):
    ptr = torch.tensor([0, 3, 5])
    x = torch.randn(size, 5, 3, dtype=torch.float64)
    y, *_ = torch.func.vmap(lambda x: principal_axes(x, ptr, None, True, 2, 1, 1e-6, 1e-6))(x)
    assert y.shape == x.shape


def test_a_graph_cannot_be_batched():
    graph = EdgeIndex.from_edges(torch.tensor([[0, 1], [1, 0]]), 2, 2)
    x, sources = torch.ones(2, 1), torch.stack([graph.source, graph.source.flip(0)])

    def total(source):
        return gather_sum(x, source, graph.ptr, graph.back_target, graph.back_ptr)

    with pytest.raises(NotImplementedError, match="can batch x here, but not index"):
        torch.func.vmap(total)(sources)


_numbers = count()


@pytest.fixture
def name() -> Iterator[str]:
    """Name of an op that is not yet declared; it is no part of the package afterwards."""
    name = f"declared_in_a_test_{next(_numbers)}"
    yield name
    SCHEMAS.pop(name, None)


def scale(x: Tensor, factor: float) -> Tensor:
    return factor * x


def declare_one(name: str, schema: str, **options):
    """Declare an op with results of the shape of x, whose rows may lie one after another."""
    results = 2 if schema.endswith("(Tensor, Tensor)") else 1
    return declare(
        name + schema, **{"fake": like(*"x" * results), "batch": blocks(["x"])} | options
    )


def declare_scale(name: str, **options):
    rules = {"reference": scale, "backward": lambda grad, *, factor: {"x": factor * grad}}
    return declare_one(name, "(Tensor x, float factor) -> Tensor", **(rules | options))


@pytest.mark.parametrize("reference", [scale, lambda factor, x: factor * x])
def test_arguments_and_gradients_are_matched_by_name(name, reference):
    op = declare_scale(name, reference=reference)
    x = torch.ones(3, requires_grad=True)
    (slope,) = torch.autograd.grad(op(x, 2.0).sum(), x)
    assert op(x, 3.0).tolist() == [3, 3, 3]
    assert slope.tolist() == [2, 2, 2]
    assert SCHEMAS[name] == f"{name}(Tensor x, float factor) -> Tensor"


def test_a_gradient_that_is_missing_is_none(name):
    op = declare_one(
        name,
        "(Tensor x, Tensor y) -> Tensor",
        reference=lambda x, y: x * y,
        backward=lambda grad, *, x: {"y": grad * x},
    )
    x, y = torch.tensor(3.0, requires_grad=True), torch.tensor(5.0, requires_grad=True)
    slopes = torch.autograd.grad(op(x, y), (x, y), allow_unused=True)
    assert slopes == (None, torch.tensor(3.0))


def test_a_gradient_of_no_argument_is_refused(name):
    op = declare_scale(name, backward=lambda grad, *, factor: {"z": grad})
    out = op(torch.ones(1, requires_grad=True), 2.0)
    refused("must return gradients of x, factor, got z", out.sum().backward)


def test_a_backward_gets_arguments_results_and_what_is_needed(name):
    seen = {}

    def backward(grad_double, grad_square, *, square, needed, differentiable, **rest):
        seen.update(square=square, needed=needed, differentiable=differentiable, rest=rest)
        return {"x": 2 * grad_double + 2 * rest["x"] * grad_square}

    op = declare_one(
        name,
        "(Tensor x, Tensor? weight, int[] dims, bool flag) -> (Tensor, Tensor)",
        reference=lambda x, weight, dims, flag: (2 * x, x * x),
        backward=backward,
        results=("double", "square"),
    )
    x = torch.tensor([3.0], requires_grad=True)
    double, square = op(x, None, [4, 5], True)
    assert torch.autograd.grad((double + square).sum(), x)[0].item() == 8
    assert torch.equal(seen["square"], square)
    assert seen["needed"] == seen["differentiable"] == {"x"}
    rest = [("x", x), ("weight", None), ("dims", [4, 5]), ("flag", True)]
    assert list(seen["rest"].items()) == rest


@pytest.mark.parametrize("optional", [False, True])
def test_a_gradient_that_does_not_arrive_is_zeros_or_none(name, optional):
    seen = []

    def both(a, b, *, x):
        seen.append(b)
        return {"x": 2 * a}

    def one(a=None, b=None, *, x):
        return both(a, b, x=x)

    op = declare_one(
        name,
        "(Tensor x) -> (Tensor, Tensor)",
        reference=lambda x: (2 * x, 3 * x),
        backward=one if optional else both,
    )
    first, _ = op(torch.ones(2, requires_grad=True))
    first.sum().backward()
    assert seen == [None] if optional else seen[0].tolist() == [0, 0]


def test_constant_results_are_not_differentiable(name):
    op = declare_one(
        name,
        "(Tensor x) -> (Tensor, Tensor)",
        reference=lambda x: (2 * x, 3 * x),
        backward=lambda grad, _: {"x": 2 * grad},
        results=("double", "triple"),
        constant_results=("triple",),
    )
    double, triple = op(torch.ones(2, requires_grad=True))
    assert double.requires_grad
    assert not triple.requires_grad


def test_pytorch_differentiates_the_reference_where_names_stand_for_a_backward(name):
    op = declare_one(
        name,
        "(Tensor x, int[] n, Tensor y, Tensor z) -> Tensor",
        reference=lambda x, n, y, z: n[0] * x * x * y * z,
        backward=("x", "y"),
    )
    x, y, z = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (2.0, 3.0, 5.0))
    slopes = torch.autograd.grad(op(x, [7], y, z), (x, y, z), create_graph=True, allow_unused=True)
    assert [s if s is None else s.item() for s in slopes] == [420, 140, None]
    assert torch.autograd.gradgradcheck(lambda x, y: op(x, [7], y, z.detach()), (x, y))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"backward": lambda grad, *, fctor: {}},
            "takes fctor, which is none of x, factor, needed, differentiable",
        ),
        ({"backward": lambda: {}}, "must take 1 gradients by position, got 0"),
        ({"backward": lambda a, b: {}}, "must take 1 gradients by position, got 2"),
        ({"backward": ("factor",)}, "takes no tensor factor"),
        ({"reference": lambda x, fctor: x}, "takes fctor"),
        ({"fake": lambda y: y}, "takes y"),
        ({"results": ("a", "b")}, "has 1 results"),
        ({"results": ("x",)}, "must not be named x"),
        ({"constant_results": ("a",)}, "no results a"),
    ],
)
def test_names_that_do_not_fit_the_schema_are_refused(name, options, message):
    refused(message, declare_scale, name, **options)
    assert name not in SCHEMAS


def test_a_missing_body_is_refused(name):
    with pytest.raises(TypeError, match="backward"):
        declare_one(name, "(Tensor x) -> Tensor", reference=lambda x: x)


def test_an_op_declared_so_is_registered_as_pytorch_demands(name):
    declare_scale(name)
    op = getattr(torch.ops.equigeo, name).default
    torch.library.opcheck(op, (torch.ones(3, requires_grad=True), 2.0))


def test_opcheck_sees_a_wrong_fake(name):
    declare_scale(name, fake=lambda x: x.new_empty(len(x) + 1))
    op = getattr(torch.ops.equigeo, name).default
    with pytest.raises(Exception, match="test_faketensor"):
        torch.library.opcheck(op, (torch.ones(3, requires_grad=True), 2.0))


def cube(name, **options):
    """The cube of one argument times another, whose gradient is not linear in them."""
    return declare_one(
        name,
        "(Tensor x, Tensor y, float factor) -> (Tensor, Tensor)",
        reference=lambda x, y, factor: (factor * x**3 * y, x > 0),
        fake=lambda x: (x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.bool)),
        backward=lambda grad, _, *, x, y, factor: {
            "x": 3 * factor * grad * x**2 * y,
            "y": factor * grad * x**3,
        },
        batch=blocks(["x", "y"]),
        **options,
    )


def point():
    x, y, dx, dy = torch.randn(
        4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    return (x, y), (dx, dy)


def change(inputs, tangents):
    (x, y), (dx, dy) = inputs, tangents
    return 2 * (3 * x**2 * y * dx + x**3 * dy)


def test_forward_mode_is_the_transpose_of_reverse_mode(name):
    op, (inputs, tangents) = cube(name), point()
    (_, flags), (found, _) = torch.func.jvp(lambda x, y: op(x, y, 2.0), inputs, tangents)
    assert flags.dtype == torch.bool
    assert_close(found, change(inputs, tangents))


@pytest.mark.parametrize("by_dispatcher", [False, True])
def test_dual_numbers_pass_through(name, by_dispatcher):
    op, (inputs, tangents) = cube(name), point()
    if by_dispatcher:
        op = getattr(torch.ops.equigeo, name)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(*pair) for pair in zip(inputs, tangents, strict=True)]
        result, _ = op(*duals, 2.0)
        assert_close(forward_ad.unpack_dual(result).tangent, change(inputs, tangents))


def test_calls_of_the_dispatcher_refuse_transforms_instead_of_losing_tangents(name):
    cube(name)
    op, (inputs, tangents) = getattr(torch.ops.equigeo, name), point()
    with pytest.raises(NotImplementedError, match="has no forward mode under"):
        torch.func.jvp(lambda x, y: op(x, y, 2.0)[0], inputs, tangents)
    with pytest.raises(RuntimeError, match=r"no gradient by torch\.func .* torch\.autograd\.grad"):
        torch.func.grad(lambda x: op(x, inputs[1], 2.0)[0].sum())(inputs[0])


def test_a_rule_of_its_own_is_taken(name):
    seen = []

    def forward(tangents, *, factor):
        seen.append(sorted(tangents))
        return 7 * factor * tangents["x"], None

    op, (inputs, tangents) = cube(name, forward=forward), point()
    _, found = torch.func.jvp(lambda x: op(x, inputs[1], 2.0)[0], inputs[:1], tangents[:1])
    assert_close(found, 14 * tangents[0])
    assert seen == [["x", "y"]]  # zeros where nothing moves


def test_forward_over_forward_is_not_zero(name):
    # PyTorch alone loses the second tangent of an autograd.Function with a jvp.
    op, (inputs, _) = cube(name), point()
    x, ones = inputs[0], torch.ones(5, dtype=torch.float64)

    def slope(x):
        return torch.func.jvp(lambda x: op(x, ones, 1.0)[0], (x,), (ones,))[1]

    assert_close(torch.func.jvp(slope, (x,), (ones,))[1], 6 * x)


def test_a_hessian_by_every_pair_of_modes(name):
    op, (inputs, _) = cube(name), point()

    def total(x):
        return op(x, inputs[1], 1.0)[0].sum()

    want = torch.diag(6 * inputs[0] * inputs[1])
    modes = (torch.func.jacfwd, torch.func.jacrev)
    for outer in modes:
        for inner in modes:
            assert_close(outer(inner(total))(inputs[0]), want)


def test_gradients_are_not_computed_in_half_precision(name):
    seen = []
    op = declare_one(
        name,
        "(Tensor x) -> Tensor",
        reference=lambda x: 2 * x,
        backward=lambda grad: {"x": seen.append((grad @ grad).dtype) or 2 * grad},
    )
    x = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        op(x).sum().backward()
    assert seen == [torch.float32]


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


def test_sparse_tensors_are_refused_in_a_sentence():
    eigen = torch.eye(3)[None]
    for sparse in (eigen.to_sparse(), eigen.to_sparse().requires_grad_()):
        with pytest.raises(TypeError, match=r"matrix must be strided, .* of layout torch\.sp"):
            symmetric_eigen(sparse)
    edges = EdgeIndex.from_edges(torch.tensor([[0, 1], [1, 1]]), 2, 2)
    indices = [edges.source.to_sparse(), edges.ptr, edges.back_target, edges.back_ptr]
    refused(r"layout torch\.sparse_coo", gather_sum, torch.ones(2, 3), *indices, error=TypeError)


def test_tolerance_is_32_roundings_and_grows_with_the_root_of_the_length_and_the_condition():
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.complex64):
        eps = torch.finfo(dtype).eps
        assert tolerance(dtype) == {"rtol": 32 * eps, "atol": 32 * eps}
    base = tolerance(torch.float32)["rtol"]
    assert tolerance(torch.float32, 100)["atol"] == pytest.approx(10 * base)
    assert tolerance(torch.float32, 100, 7.0)["rtol"] == pytest.approx(70 * base)
    terms = 10_000  # whose sum stays within it
    x = torch.rand(terms, generator=torch.Generator().manual_seed(0))
    naive = x.cumsum(0)[-1] / terms
    exact = x.double().mean().float()
    torch.testing.assert_close(naive, exact, **tolerance(torch.float32, terms))
    refused(r"floating or complex, got torch\.int64", tolerance, torch.int64, error=TypeError)
    for bad in (0, -1, math.inf, math.nan):
        refused("terms must be finite and at least 1", tolerance, torch.float32, terms=bad)
        refused("condition must be finite and at least 1", tolerance, torch.float32, condition=bad)
