"""Gradients of products that are linear in each operand, of all orders.

A product P and the gradient g that arrives make one form :math:`F(g, x, y, w) = <g, P(x, y, w)>`,
linear in each argument; the gradients of P are the derivatives of F. The flag ``by_weight``
requests that by the weights, which forces of frozen models do not need. A double-backward op takes
the arguments of F, one tangent per operand, the path table, and one flag per argument. Derivatives
that are not requested are empty tensors of shape (0, 0). Its reference implementation calls the
product and its gradients, so that devices without a kernel for it lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_dtype, check_features, check_row
from equigeo._core.tensors import computed_in
from equigeo.ops.path_table import Path, PathTable, Segment, read_paths
from equigeo.ops.runtime.batching import BatchRule, blocks
from equigeo.ops.runtime.declare import declare, declared, like
from equigeo.ops.runtime.forward_rules import gradients_linear_in, linear_in
from equigeo.ops.runtime.schemas import product_schemas
from equigeo.ops.runtime.tape import Function, Gradients, Signature

OPERANDS = ("x", "y", "weight")
"""The arguments that products are linear in."""

FORM = ("grad", *OPERANDS)
"""Those of the form that a product makes with the gradient that arrives."""

TANGENTS = tuple(f"{operand}_tangent" for operand in OPERANDS)
"""Tangents of the operands, None for zeros."""

WANTED = tuple(f"by_{name}" for name in FORM)
"""Whether the derivative by each argument of the form is wanted."""

FEATURES = (*FORM, *TANGENTS)
"""The arguments with rows."""

LARGEST_DEGREE = 6
"""Of segments whose components kernels keep in registers: those of the first input of channelwise
products, and those of the first input and the output of fully connected products."""


def backward_of_product(
    # op that takes the output gradient, all arguments but dim_out, and by_weight
    gradients: Callable[..., Any],
) -> Callable[..., Gradients]:
    """Return the backward rule of a product op."""

    def backward(grad: Tensor, *, needed: set[str], dim_out: int, **arguments: Any) -> Gradients:
        by_weight = "weight" in needed
        to_x, to_y, to_weight = gradients(grad, *arguments.values(), by_weight)
        return {"x": to_x, "y": to_y, "weight": to_weight if by_weight else None}

    return backward


def backward_by_double_backward(
    double_backward: Callable[..., Any],  # that op
) -> Callable[..., Gradients]:
    """Return the backward rule of the gradient op of a product that has a double-backward op."""

    def backward(
        a: Tensor | None = None,
        b: Tensor | None = None,
        c: Tensor | None = None,
        *,
        differentiable: set[str],
        by_weight: bool,
        **arguments: Any,
    ) -> Gradients:
        values = list(arguments.values())
        point, rest = values[: len(FORM)], values[len(FORM) :]
        tangents = (a, b, None if arguments["weight"] is None or not by_weight else c)
        wanted = [name in differentiable for name in FORM]
        slopes = double_backward(*point, *tangents, *rest, *wanted)
        return {
            name: slope for name, slope in zip(FORM, slopes, strict=True) if name in differentiable
        }

    return backward


def composed_double_backward(
    name: str,  # name of the product op
) -> Callable[..., tuple[Tensor, ...]]:
    """Return the reference, composed of the product and its gradients at other points."""

    def reference(x: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
        point, tangents, wanted, rest = _parts({"x": x, **arguments})
        slopes: Gradients = {}
        # Along tangents a, b, c the form changes by F(g, a, y, w) + F(g, x, b, w) + F(g, x, y, c).
        for operand, along in zip(OPERANDS, tangents.values(), strict=True):
            if along is not None and point[operand] is not None:
                others = [of for of in FORM if wanted[of] and of != operand]
                moved = {**point, operand: along}
                _add_to(slopes, _derivatives_of_form(name, moved, rest, others))
        missing = _empty(x=x, **arguments)
        return tuple(
            empty.zero_() if (slope := slopes.get(of)) is None else slope
            for of, empty in zip(FORM, missing, strict=True)
        )

    return reference


def backward_of_double_backward(
    name: str,  # name of the product op
) -> Callable[..., Gradients]:
    """Return the third-order backward rule, composed of the product and its gradients."""

    def backward(
        to_grad: Tensor | None = None,
        to_x: Tensor | None = None,
        to_y: Tensor | None = None,
        to_weight: Tensor | None = None,
        *,
        needed: set[str],
        **arguments: Any,
    ) -> Gradients:
        point, tangents, wanted, rest = _parts(arguments)
        arriving = dict(zip(FORM, (to_grad, to_x, to_y, to_weight), strict=True))
        total: Gradients = {}
        # The form with one operand replaced by its tangent and another argument by the arriving
        # gradient is differentiated by the remaining arguments.
        for operand, tangent in zip(OPERANDS, tangents.values(), strict=True):
            for place, along in arriving.items():
                present = tangent is not None and along is not None and point[place] is not None
                if not present or not wanted[place] or place == operand:
                    continue
                # In the place of an operand stands its tangent.
                names = {of: of if of != operand else f"{operand}_tangent" for of in FORM}
                asked = [of for of in FORM if of != place and names[of] in needed]
                moved = {**point, operand: tangent, place: along}
                parts = _derivatives_of_form(name, moved, rest, asked)
                _add_to(total, {names[of]: part for of, part in parts.items()})
        return total

    return backward


def _parts(arguments: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Split arguments by name into the point, the tangents, the requested flags, and the rest."""
    point = {of: arguments[of] for of in FORM}
    tangents = {of: arguments[of] for of in TANGENTS}
    wanted = {of: arguments[f"by_{of}"] for of in FORM}
    known = {*FEATURES, *WANTED}
    return point, tangents, wanted, {k: v for k, v in arguments.items() if k not in known}


_empty = like(*FORM, flags=WANTED)


def _derivatives_of_form(
    name: str,  # name of the product op
    point: dict[str, Any],
    rest: dict[str, Any],
    needed: Sequence[str],
) -> dict[str, Tensor]:
    """Return the derivatives of the form by the needed arguments, except by missing weights."""
    # By name, since the product refers to its gradients: modules would import one another.
    found: dict[str, Tensor] = {}
    grad, *operands = point.values()
    if "grad" in needed:
        end = list(rest).index("values") + 1
        table, layout = list(rest.values())[:end], list(rest.values())[end:]
        found["grad"] = declared(name)(*operands, *table, grad.shape[1], *layout)
    if any(operand in needed for operand in OPERANDS):
        by_weight = "weight" in needed
        parts = declared(f"{name}_backward")(grad, *operands, *rest.values(), by_weight)
        named = zip(OPERANDS, parts, strict=True)
        found |= {o: part for o, part in named if o in needed and point[o] is not None}
    return found


def _add_to(total: Gradients, parts: dict[str, Tensor]) -> None:
    """Add derivatives to the sums per argument, replacing the sums."""
    for name, part in parts.items():
        known = total.get(name)
        total[name] = part if known is None else known + part


@dataclass(frozen=True)
class Letters:
    """Einstein-sum axes of a path: rows e, channels u, v and w, components i, j and k."""

    x: str
    y: str
    out: str
    weight: str


MATCHED = Letters("eui", "euj", "euk", "eu")  # uuu

CHANNELWISE = Letters("eui", "evj", "euk", "euv")  # uvu

PAIRS = Letters("eui", "evj", "euvk", "euv")  # uvuv

MIXED = Letters("eui", "evj", "ewk", "euvw")  # uvw

Connection = Callable[[Path], Letters]


def copywise(path: Path) -> Letters:
    """Connect copies one by one, ``uuu``, or each with all of the other input, ``uvuv``."""
    return PAIRS if path.out.mul == path.x.mul * path.y.mul else MATCHED


def connected(connection: Connection) -> tuple[Function, Function]:
    """Return references of a product and its gradients, in the dtype of the coefficients."""

    def product(x: Tensor, y: Tensor, weight: Tensor | None, dim_out: int, **table: Any) -> Tensor:
        dtype = x.dtype
        x, y, weight = _computed(table, x, y, weight)
        # z_k += w sum_ij C_ijk x_i y_j for the channels that the connection joins.
        out = x.new_zeros(x.shape[0], dim_out)
        for path in _paths(table):
            form = connection(path)
            w = weights_of(weight, path, form, x)
            operands = [read_segment(x, path.x), read_segment(y, path.y), path.coefficients, w]
            z = torch.einsum(f"{form.x},{form.y},ijk,{form.weight}->{form.out}", *operands)
            out = add_to_segment(out, path.out, z)
        return out.to(dtype)

    def gradients(
        grad: Tensor, x: Tensor, y: Tensor, weight: Tensor | None, by_weight: bool, **table: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        dtype = x.dtype
        grad, x, y, weight = _computed(table, grad, x, y, weight)
        # F = sum_k g_k z_k is linear in g, x, y and w: derivatives replace one operand of the sum.
        to_x, to_y = torch.zeros_like(x), torch.zeros_like(y)
        by_weight = by_weight and weight is not None
        to_weight = torch.zeros_like(weight) if by_weight else x.new_zeros(0, 0)
        for path in _paths(table):
            form = connection(path)
            w, c = weights_of(weight, path, form, x), path.coefficients
            g = read_segment(grad, path.out).unflatten(1, _sizes(path, form.out[1:-1]))
            xs, ys = read_segment(x, path.x), read_segment(y, path.y)
            to_xs = torch.einsum(f"{form.out},{form.y},ijk,{form.weight}->{form.x}", g, ys, c, w)
            to_ys = torch.einsum(f"{form.out},{form.x},ijk,{form.weight}->{form.y}", g, xs, c, w)
            to_x, to_y = add_to_segment(to_x, path.x, to_xs), add_to_segment(to_y, path.y, to_ys)
            if by_weight and path.weight is not None:
                of_weight = f"{form.out},{form.x},ijk,{form.y}->{form.weight}"
                to_w = torch.einsum(of_weight, g, xs, c, ys)
                to_weight = add_to_segment(to_weight, weight_segment(path, form), to_w)
        return to_x.to(dtype), to_y.to(dtype), to_weight.to(dtype)

    return product, gradients


def _paths(table: Mapping[str, Any]) -> Iterator[Path]:
    return read_paths(table["paths"], table["entries"], table["values"])


def _computed(table: Mapping[str, Any], *operands: Any) -> tuple[Any, ...]:
    dtype = table["values"].dtype
    return tuple(None if x is None else x.to(dtype) for x in operands)


def read_segment(row: Tensor, segment: Segment) -> Tensor:
    """Return a segment of every row, (rows, mul, d)."""
    return row[:, segment.index().to(row.device)]


def add_to_segment(row: Tensor, segment: Segment, values: Tensor) -> Tensor:
    """Add values to a segment of every row."""
    return row.index_add(1, segment.index().flatten().to(row.device), values.flatten(1))


def _sizes(path: Path, letters: str) -> tuple[int, ...]:
    sizes = {"u": path.x.mul, "v": path.y.mul, "w": path.out.mul}
    return tuple(sizes[letter] for letter in letters)


def weight_segment(path: Path, form: Letters) -> Segment:
    """Return the segment of the weights of a path."""
    shape = torch.Size(_sizes(path, form.weight[1:]))
    return Segment.block(path.weight or 0, shape.numel(), 1)


def weights_of(row: Tensor | None, path: Path, form: Letters, like: Tensor) -> Tensor:
    """Return the weights of a path per row, or ones if the path has none."""
    shape = _sizes(path, form.weight[1:])
    if row is None or path.weight is None:
        return like.new_ones(like.shape[0], *shape)
    return read_segment(row, weight_segment(path, form)).view(-1, *shape)


def product_arguments(
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    table: PathTable,
    graph: Mapping[str, Tensor] | None = None,  # index tensors of a convolution, source first
) -> tuple[Any, ...]:
    """Validate operands against a table and return the arguments of a product op up to dim_out."""
    graph = {} if graph is None else graph
    rows = next((index.shape[0] for index in graph.values()), None)
    operands = {"x": x, "y": y}
    dims = {"x": table.dim_x, "y": table.dim_y, "weight": table.dim_weight}
    if weight is not None:
        operands["weight"] = weight
    if (weight is None) != (table.dim_weight == 0):
        given = "None" if weight is None else tuple(weight.shape)
        raise ValueError(f"weight must have {table.dim_weight} numbers per row, got {given}")
    for name, tensor in operands.items():
        check_features(name, tensor, ("rows", "components"))
        check_dtype(name, tensor, "x", x)
        if tensor.shape[1] != dims[name]:
            raise ValueError(
                f"{name} must have {dims[name]} components, got shape {tuple(tensor.shape)}"
            )
        expected = x.shape[0] if rows is None else rows
        if name != "x" and tensor.shape[0] != expected:
            raise ValueError(f"{name} must have {expected} rows, got {tensor.shape[0]}")
    tensors = {"paths": table.paths, "entries": table.entries, "values": table.values}
    check_device(**operands, **graph, **tensors)
    tensors["values"] = table.values.to(computed_in(x.dtype))
    return x, y, weight, *graph.values(), *tensors.values(), table.dim_out


def fake_product(x: Tensor, dim_out: int) -> Tensor:
    """Return an empty result of a product of rows."""
    return x.new_empty(x.shape[0], check_row(dim_out))


def _fake_gradients(x: Tensor, y: Tensor, weight: Tensor | None, by_weight: bool) -> Any:
    return like(*OPERANDS)(x=x, y=y, weight=weight if by_weight else None)


def declare_product(
    schema: str,  # of the product; those of its gradients follow from it
    reference: Function,
    gradients: Function,  # reference of the gradients
    *,
    fake: Function = fake_product,
    batch: Callable[[Sequence[str]], BatchRule] = blocks,  # from the arguments with rows
    bfloat16: bool = False,  # whether the ops read bfloat16 without casts
) -> tuple[Function, Function]:  # the product and its gradients
    """Declare a product that is linear in each operand, its gradients and their gradients."""
    product, first, second = product_schemas(schema)
    name = Signature.parse(product).name
    second_op = declare(
        second,
        reference=composed_double_backward(name),
        fake=_empty,
        backward=backward_of_double_backward(name),
        batch=batch(FEATURES),
        bfloat16=FEATURES if bfloat16 else (),
    )
    first_op = declare(
        first,
        reference=gradients,
        fake=_fake_gradients,
        backward=backward_by_double_backward(second_op),
        forward=gradients_linear_in(f"{name}_backward", FORM),
        batch=batch(FORM),
        bfloat16=FORM if bfloat16 else (),
    )
    op = declare(
        product,
        reference=reference,
        fake=fake,
        backward=backward_of_product(first_op),
        forward=linear_in(name, OPERANDS),
        batch=batch(OPERANDS),
        bfloat16=OPERANDS if bfloat16 else (),
    )
    return op, first_op
