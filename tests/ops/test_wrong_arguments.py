"""Wrong arguments of public functions: errors that name one, before any memory is touched."""

from typing import Any

import pytest
import torch
from torch import Tensor

from equigeo import ops
from tests.ops.small_calls import PATHS, POLYNOMIALS, arguments_of, changed
from tests.wrong_inputs import refused

pytestmark = pytest.mark.kernels
SPLINE = ("position", "first", "basis", "coefficients")
BY_GRAPH = ("channelwise_conv", "radial_conv", "spline_conv")
LISTS = ("source", "ptr", "order", "target", "back_order", "back_ptr")
V, T = ValueError, TypeError
FLOAT = "must be float32 or float64"
bfloat16, double, long = torch.Tensor.bfloat16, torch.Tensor.double, torch.Tensor.long


def meta(x: Tensor) -> Tensor:
    return x.to("meta")


def first(x: Tensor) -> Tensor:
    return x[0]


def shorter(x: Tensor) -> Tensor:
    return x[1:]


def narrower(x: Tensor) -> Tensor:
    return x[:, 1:]


def replaced(names: tuple[str, ...] = LISTS, **changes: Any) -> Any:
    """Return a function that changes lists of a graph, or a spline."""
    return lambda given: tuple(changed(dict(zip(names, given, strict=True)), changes).values())


def bent(**changes: Any) -> tuple[str, Any]:
    return "spline", replaced(SPLINE, **changes)


def good(name: str) -> dict[str, Any]:
    """Right arguments of a public function by their names, in its order."""
    given = arguments_of(name)
    names = {
        "channelwise_conv": ("x", "y", "weight"),
        "radial_conv": ("x", "y", "hidden", "radial"),
        "spline_conv": ("x", "y", "spline"),
        "symmetric_contraction": ("x", "weight", "index"),
    } | dict.fromkeys(PATHS, ("x", "y", "weight"))
    if name == "spline_conv":
        given["spline"] = tuple(given[key] for key in SPLINE)
    chosen = {key: given[key] for key in names.get(name, given)}
    if name in BY_GRAPH:
        chosen["graph"] = tuple(given[key] for key in LISTS)
    if name in names:
        tables = {**PATHS, "symmetric_contraction": POLYNOMIALS}
        chosen["table"] = tables.get(name, PATHS["channelwise_product"])
    if name == "axis_flags":
        chosen["tolerances"] = tuple(chosen.pop(key) for key in ("eps", "gap_tol", "sign_tol"))
    return chosen


WRONG: dict[str, list[tuple[str, Any, type[Exception], str]]] = {
    "channelwise_conv": [
        ("graph", lambda graph: graph[:5], V, "graph must hold source, ptr, order"),
        ("graph", replaced(source=torch.Tensor.float), T, "source must be int64"),
    ],
    "spline_conv": [
        ("x", long, T, f"x {FLOAT}"),
        ("x", narrower, V, r"x must be \(3, 6\), got \(3, 5\)"),
        ("y", shorter, V, r"y must be \(4, 3\), got \(3, 3\)"),
        ("graph", lambda graph: graph[:5], V, "graph must hold source, ptr, order"),
        (*bent(position=shorter), V, r"position must be \(4,\), got \(3,\)"),
        (*bent(position=double), T, "position must have the dtype of x, torch.float32"),
        (*bent(position=meta), V, "device"),
        (*bent(first=shorter), V, r"first must be \(4,\) int64, got \(3,\) torch.int64"),
        (*bent(first=torch.Tensor.int), V, r"first must be .* got \(4,\) torch.int32"),
        (*bent(first=meta), V, "device"),
        (*bent(basis=first), V, "basis must be"),
        (*bent(basis=narrower), V, r"basis must be \(2, 1\), got \(3, 1\)"),
        (*bent(basis=double), T, "basis must have the dtype of x"),
        (*bent(coefficients=first), V, "coefficients must be"),
        (*bent(coefficients=lambda c: c[..., 1:]), V, r"must be \(2, 3, 2\), got \(2, 3, 1\)"),
        (*bent(coefficients=lambda c: c[:, :1]), V, r"must be \(2, 2, 2\), got \(2, 1, 2\)"),
        (*bent(coefficients=shorter), V, r"must be \(2, 3, 2\), got \(1, 3, 2\)"),
        (*bent(coefficients=bfloat16), T, "coefficients must have the dtype of x"),
    ],
    "symmetric_contraction": [
        ("x", long, T, "x must be float32 or float64, bfloat16 or float16"),
        ("x", first, V, r"x must be \(rows, components\), got shape \(3,\)"),
        ("x", narrower, V, r"x must have 1 channels of 3 variables, got shape \(2, 2\)"),
        ("weight", double, T, "weight must have the dtype of x, torch.float32"),
        ("weight", first, V, r"weight must be \(sets, weights, channels\), got"),
        ("weight", lambda w: w[:0], V, "weight must have at least one set, got none"),
        ("weight", meta, V, "weight must be on the device of x, cpu"),
        ("index", torch.Tensor.int, T, "index must be int64, got torch.int32"),
        ("index", lambda index: index[None], V, r"index must have one axis, got shape \(1, 2\)"),
        ("index", shorter, V, "index must have 2 entries to fit the rows of x, got 1"),
    ],
    "block_linear": [
        ("x", long, T, f"x {FLOAT}"),
        ("weight", double, T, "weight must have the dtype"),
        ("weight", first, V, "weight must be .rows, components."),
        ("blocks", torch.Tensor.int, V, "blocks must be .blocks, 6., int64"),
        ("blocks", narrower, V, "blocks must be .blocks, 6., int64"),
        ("factors", lambda factors: factors[:2], V, "factors must be .6,. to fit blocks"),
        ("blocks", meta, V, "blocks must be on the device of x"),
        ("weight", lambda w: w.expand(3, -1), V, "the 4 rows of x must be in 3 equal groups, as w"),
        ("weight", lambda w: w[:0], V, "the 4 rows of x must be in 0 equal groups, as weight"),
    ],
    "gather_sum": [
        ("x", long, T, rf"x {FLOAT}, bfloat16 or float16, got torch\.int64"),
        ("back_index", shorter, V, "back_index must have 4 entries to fit index, got 3"),
        ("back_ptr", shorter, V, "back_ptr must have 4 entries to fit the rows of x"),
    ],
    "segment_attention": [
        ("values", long, T, f"values {FLOAT}"),
        ("values", first, V, r"values must be \(sources, heads, channels\)"),
        ("logits", double, T, "logits must have the dtype of values"),
        ("logits", narrower, V, "the 2 heads of values"),
        ("source", torch.Tensor.int, T, "source must be int64, got torch.int32"),
        ("target", shorter, V, "target must have 4 entries to fit the rows of logits"),
        ("source", lambda source: source[None], V, "source must have one axis"),
        ("ptr", lambda ptr: ptr[:0], V, "ptr must have at least 1 entry"),
        ("back_ptr", lambda ptr: ptr[:3], V, "back_ptr must have 4 entries"),
        ("back_order", meta, V, "back_order must be on the device of values"),
    ],
    "attention_conv": [
        ("weight", torch.ones(15, 3), V, "equally many rows for each of 2 heads"),
        ("weight", torch.ones(14, 4), V, "3 columns"),
        ("self_weight", torch.ones(2, 3), V, r"shape of weight, \(14, 3\)"),
        ("weight", double, T, "dtype of x"),
        ("logits", torch.ones(4), V, "logits"),
        ("x", long, T, "x"),
        ("ptr", lambda ptr: torch.cat([ptr, ptr[-1:]]), V, "as many targets as sources, got 4 and"),
    ],
    "axis_flags": [
        ("spread", long, T, "spread must be float32"),
        ("margin", shorter, V, "margin must"),
        ("margin", double, T, "margin must"),
        ("centroid", shorter, V, "centroid must"),
        ("centroid", double, T, "centroid must"),
        ("ptr", shorter, V, "ptr must have 3 entries"),
        ("weight", double, T, "weight must have the dtype of spread"),
        ("weight", torch.ones(3), RuntimeError, "ptr must start at 0, never fall and end at 3"),
        ("signs", 4, V, "signs must be from 0 to 3"),
    ],
    "grid_product": [
        ("x", long, T, f"x {FLOAT}, bfloat16 or float16"),
        ("x", torch.ones(4), V, r"x must be \(samples, coefficients\), got shape \(4,\)"),
        ("y", shorter, V, "y must have the 3 samples of x, got 2"),
        ("y", torch.ones(3, 9), V, "y must have 4 coefficients to fit legendre_y, got 9"),
        ("y", double, T, "y must have the dtype of x, torch.float32"),
        ("trig_z", double, T, "trig_z must have the dtype of x"),
        ("trig_z", torch.ones(1, 3, 5), V, "trig_z must be for a grid of 4 .* got 5"),
        ("legendre_y", torch.ones(1, 4, 3), V, "legendre_y must be for a grid of 2"),
        ("legendre_x", torch.ones(1, 5, 2), V, r"\(L \+ 1\)\^2 coefficients .* got 5 and 3"),
        ("trig_x", torch.ones(1, 5, 4), V, r"2 L \+ 1 orders, got 4 and 5"),
        ("trig_x", torch.ones(2, 3, 4), V, "must both have 1 or 2 summands, got 1 and 2"),
        ("trig_x", first, V, r"trig_x must be \(summands, orders, longitudes\)"),
        ("y", meta, V, "y must be on the device of x, cpu, got meta"),
    ],
    "principal_axes": [
        ("x", long, T, "x must be float32"),
        ("x", lambda x: x[:, :0], V, "at least one component"),
        ("ptr", torch.Tensor.int, T, "ptr must be int64"),
        ("weight", shorter, V, "weight must"),
        ("weight", double, T, "weight must"),
        ("signs", 4, V, "signs must be from 0 to 3"),
        ("scale", -1, V, "scale must be from 0 to 3"),
    ],
    "relu_batch_norm": [
        ("x", long, T, "x must be float32"),
        ("x", first, V, r"x must be \(rows, channels\)"),
        ("added", shorter, V, r"added must have shape \(3, 2\)"),
        ("weight", shorter, V, r"weight must have shape \(2,\)"),
        ("bias", double, T, "bias must have the dtype of x"),
        ("eps", 0.0, V, "eps must be positive, got 0.0"),
        ("weight", meta, V, "device"),
    ],
    "spherical_harmonics": [
        ("x", long, T, f"x {FLOAT}, bfloat16 or float16, got torch.int64"),
        ("x", first, V, r"x must be \(points, components\), got shape \(3,\)"),
        ("x", narrower, V, r"x must be \(points, 3\), got shape \(3, 2\)"),
        ("table", double, T, "table must have the dtype of x, torch.float32"),
        ("table", first, V, r"table must be \(coefficients, orders, degrees\)"),
        ("table", shorter, V, r"table must be \(6, lmax \+ 1, lmax \+ 1\), got"),
        ("table", meta, V, "table must be on the device of x, cpu"),
        ("degrees", [], V, r"ascend from 0 or more to 4 or less, got \[\]"),
        ("degrees", [2, 1], V, r"degrees must ascend .* got \[2, 1\]"),
        ("degrees", [1, 1], V, r"degrees must ascend .* got \[1, 1\]"),
        ("degrees", [-1], V, r"degrees must ascend .* got \[-1\]"),
        ("degrees", [5], V, r"degrees must ascend .* got \[5\]"),
    ],
    "symmetric_eigen": [
        ("matrix", torch.zeros(2, 2, 3), V, r"\(batch, n, n\)"),
        ("matrix", long, T, "float32 or float64"),
    ],
}
for product in PATHS:
    WRONG[product] = [
        ("x", torch.ones(4, 5), V, r"x must have 6 components, got shape \(4, 5\)"),
        ("y", torch.ones(4, 4), V, "y must have 3 components"),
        ("y", shorter, V, "y must have 4 rows, got 3"),
        ("weight", torch.ones(4, 3), V, "weight must have 2 components"),
        ("weight", torch.ones(1, 2), V, "weight must have 4 rows, got 1"),
        ("weight", None, V, "weight must have 2 numbers per row, got None"),
        ("y", double, T, "y must have the dtype of x"),
        ("x", long, T, f"x {FLOAT}"),
        ("x", bfloat16, T, "y must have the dtype of x"),
        ("x", first, V, "x must be"),
        ("y", meta, V, "device"),
    ]
for conv in BY_GRAPH:
    WRONG[conv] = WRONG.get(conv, []) + [
        ("graph", replaced(**{key: shorter}), V, f"{key} must have 4 entries to fit source, got 3")
        for key in ("order", "target", "back_order")
    ]


@pytest.mark.parametrize(
    ("op", "name", "change", "error", "message"), [(op, *row) for op in WRONG for row in WRONG[op]]
)
def test_wrong_arguments_are_named(op, name, change, error, message):
    function, given = getattr(ops, op), good(op)
    function(**given)
    wrong = changed(given, {name: change})
    refused(message, function, error=error, **wrong)
    if op in PATHS:
        torch._dynamo.reset()  # sizes that differed between earlier calls are symbols in messages
        compiled = torch.compile(function, fullgraph=True, backend="eager")
        refused(message, compiled, error=Exception, **wrong)
