"""Calls of ops with small arguments, some of which are changed."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.ops import Path, PathTable, Polynomial, PolynomialTable, Segment
from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.ops.runtime.tape import Signature
from tests.ops.table_rows import SMALL as LINEAR

NODES, EDGES = 3, 4
GRAPH = EdgeIndex.from_edges(torch.tensor([[0, 1, 2, 2], [0, 0, 1, 2]]), NODES, NODES)

VECTORS, VECTOR = Segment.block(0, 2, 3), Segment.block(0, 1, 3)
DOT = torch.eye(3, dtype=torch.float64)[..., None]
DIMS = (6, 3, 2, 2)
MIXED = Path(VECTORS, VECTOR, Segment.block(0, 1, 1), 0, DOT)
PAIRS = Path(VECTORS, VECTOR, Segment.block(0, 2, 1), 0, DOT)
# Two vectors times another one; of copies that are mixed, one.
PATHS = {
    "channelwise_product": PathTable.from_paths([PAIRS], DIMS, by_output=True),
    "copywise_product": PathTable.from_paths([PAIRS], DIMS),
    "fully_connected_product": PathTable.from_paths([MIXED], DIMS),
}

# w0 (x^2 + 3 y z) + w1 y to the first component, w1 x y z to the last; nothing in between
POLYNOMIALS = PolynomialTable.from_polynomials(
    [
        Polynomial(0, 0, {(0, 0): 1.0, (1, 2): 3.0}),
        Polynomial(0, 1, {(1,): 1.0}),
        Polynomial(2, 1, {(0, 1, 2): 1.0}),
    ],
    (3,), (3,),
)  # fmt: skip


def arguments_of(op: str) -> dict[str, Any]:
    """Small arguments of an op by their names in its schema."""
    family = op.removesuffix("_backward").removesuffix("_double")
    found = _common() | _OF.get(family, lambda: _of_product(family))()
    found |= {f"{name}_tangent": found.get(name) for name in ("grad", "x", "y", "weight")}
    return {name: found[name] for name in Signature.parse(SCHEMAS[op]).arguments}


def call(op: str, **changes: Any) -> Any:
    """Call an op with its arguments, of which functions change some and values replace others."""
    return getattr(torch.ops.equigeo, op)(*changed(arguments_of(op), changes).values())


def changed(given: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    new = {k: change(given[k]) if callable(change) else change for k, change in changes.items()}
    return {**given, **new}


def at(place: int | tuple[int, int], number: int) -> Callable[[Tensor], Tensor]:
    """Return a function that changes one number of a copy of a tensor."""

    def change(tensor: Tensor) -> Tensor:
        tensor = tensor.clone()
        tensor[place] = number
        return tensor

    return change


def _common() -> dict[str, Any]:
    lists = ("source", "ptr", "order", "target", "back_order", "back_ptr")
    flags = ("by_grad", "by_x", "by_y", "by_weight", "of_vectors", "of_weights")
    return {name: getattr(GRAPH, name) for name in lists} | dict.fromkeys(flags, True)


def _of_product(family: str) -> dict[str, Any]:
    by_node = family in ("channelwise_conv", "radial_conv", "spline_conv")
    table = PATHS["channelwise_product" if by_node else family]
    nodes = NODES if by_node else EDGES
    shapes = {"grad": (nodes, 2), "x": (nodes, 6), "y": (EDGES, 3), "weight": (EDGES, 2)}
    shapes |= {"hidden": (EDGES, 3), "radial": (3, 2)}
    shapes |= {"position": (EDGES,), "basis": (3, 2), "coefficients": (2, 3, 2)}
    tensors = {"paths": table.paths, "entries": table.entries, "values": table.values.float()}
    first = torch.tensor([0, 1, 1, 0])
    return ones(**shapes) | tensors | {"first": first, "dim_out": 2, "ir_mul": False}


def _of_linear() -> dict[str, Any]:
    shapes = {"grad": (4, LINEAR.dim_out), "x": (4, LINEAR.dim), "weight": (1, LINEAR.weights)}
    tensors = {"blocks": LINEAR.blocks, "factors": LINEAR.factors.float()}
    return ones(**shapes) | tensors | {"dim_out": LINEAR.dim_out, "ir_mul": False}


def _of_contraction() -> dict[str, Any]:
    tensors = {k: v for k, v in vars(POLYNOMIALS).items() if isinstance(v, Tensor)}
    lists = {name: list(getattr(POLYNOMIALS, name)) for name in ("levels", "dims_in", "dims_out")}
    features = ones(grad=(2, 3), x=(2, 3), weight=(2, 2, 1))
    by_set = {"order": torch.tensor([1, 0]), "ptr": torch.arange(3), "only_x": False}
    found = features | tensors | lists | {"index": torch.tensor([1, 0])} | by_set
    return found | {"values": tensors["values"].float()}


_OF: dict[str, Callable[[], dict[str, Any]]] = {
    "gather_sum": lambda: {
        **ones(x=(NODES, 2)), "index": GRAPH.source, "back_index": GRAPH.back_target,
    },
    "segment_attention": lambda: ones(
        values=(NODES, 2, 5), logits=(EDGES, 2), attention=(EDGES, 2), grad_out=(NODES, 2, 5),
        grad_attention=(EDGES, 2),
    ),
    "attention_conv": lambda: ones(
        x=(NODES, 3), logits=(EDGES, 2), weight=(14, 3), self_weight=(14, 3),
        attention=(EDGES, 2), grad_out=(NODES, 14), grad_attention=(EDGES, 2),
    ),
    "so2_conv": lambda: {
        **ones(grad=(NODES, 2), x=(NODES, 2), vectors=(EDGES, 3), weight=(4,)),
        **dict.fromkeys(("bias", "scale", "radial", "envelope")),
        "terms_in": [2, 0, 0], "terms_out": [2, 0, 0], "mmax": 0,
        "complex_weights": True, "by_order": True,
    },
    "block_linear": _of_linear,
    "symmetric_contraction": _of_contraction,
    "grid_product": lambda: {
        **ones(x=(3, 4), y=(3, 4)), **{f"legendre_{n}": torch.ones(1, 4, 2) for n in "xyz"},
        **{f"trig_{n}": torch.ones(1, 3, 4) for n in "xyz"},
    },
    "spherical_harmonics": lambda: {
        **ones(x=(3, 3), table=(6, 5, 5)), "degrees": [1], "normalize": True,
    },
    "symmetric_eigen": lambda: ones(matrix=(2, 3, 3)),
    "principal_axes": lambda: {
        **ones(x=(5, 3), weight=(5,)), "ptr": torch.tensor([0, 5]), "center": True, "signs": 1,
        "scale": 1, "null_tol": 1e-6, "smoothing": 1e-6,
    },
    "axis_flags": lambda: {
        **ones(spread=(2, 3), margin=(2, 3), centroid=(2, 3), weight=(2,)), "signs": 1,
        "ptr": torch.arange(3), "eps": 1e-7, "gap_tol": 1e-4, "sign_tol": 1e-5,
    },
    "relu_batch_norm": lambda: {
        **ones(x=(3, 2), added=(3, 2), weight=(2,), bias=(2,)), "eps": 1e-5, "rectify": True,
    },
}  # fmt: skip


def ones(**shapes: tuple[int, ...]) -> dict[str, Tensor]:
    return {name: torch.ones(shape) for name, shape in shapes.items()}
