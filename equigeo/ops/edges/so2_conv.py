"""The convolution that rotates edges onto an axis and mixes components order by order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_operands, check_row
from equigeo._core.tensors import (
    computes_in_float32,
    forward_mode_active,
    recording,
    transforms_active,
)
from equigeo.ops.edges.gather_sum import gather_sum_op
from equigeo.ops.edges.rotate_edges import edge_matrices, has_direction, largest_component
from equigeo.ops.edges.so2_table import SO2Table, Term
from equigeo.ops.products.channelwise_conv import check_graph
from equigeo.ops.runtime.declare import declare, differentiated, like
from equigeo.ops.runtime.forward_rules import each_of_a_batch
from equigeo.ops.runtime.tape import Gradients, Signature

Orders = list[Tensor]
"""Numbers in the frame by order: (edges, 1, width) of order 0, else (edges, 2, width)."""

SCHEMA = (
    "so2_conv(Tensor x, Tensor vectors, Tensor weight, Tensor? bias, Tensor? scale, "
    "Tensor? radial, Tensor? envelope, Tensor source, Tensor ptr, Tensor order, Tensor target, "
    "Tensor back_order, Tensor back_ptr, int[] terms_in, int[] terms_out, int mmax, "
    "bool complex_weights, bool by_order) -> Tensor"
)


@computes_in_float32
def so2_conv(  # noqa: PLR0913 - one parameter for each tensor
    x: Tensor,
    vectors: Tensor,
    weight: Tensor,
    graph: tuple[Tensor, ...],
    table: SO2Table,
    *,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    radial: Tensor | None = None,
    envelope: Tensor | None = None,
) -> Tensor:
    r"""Rotate each edge onto the y axis, mix components order by order, rotate back and sum.

    .. math:: z_t = \sum_{e: s \to t} c_e\, D(u_e)^T \bigl(W (s_e \odot P D(u_e)\, x_s) + b\bigr)

    where P keeps orders up to ``table.mmax`` and W mixes components of equal order (Passaro and
    Zitnick, ICML 2023). No value of an edge is stored: gradients compute it again. Edges of length
    zero have no direction and are skipped. Equivariant under SO(3) for any weights; under O(3)
    where the matrices and swapped terms follow parities. Returns a tensor (targets, table.dim_out).

    Parameters
    ----------
    x : Tensor, (sources, table.dim_in)
        Features of the sources, in the layout ``ir_mul``.
    vectors : Tensor, (edges, 3)
        Edges in space, of any length.
    weight : Tensor, (table.weight_numel,)
        Matrices (copies out, copies in) by order, the real part before the imaginary one; columns
        are copies of degree at least the order, term by term.
    graph : tuple of Tensor, int64
        As in :func:`equigeo.ops.channelwise_conv`.
    table : SO2Table
        The terms.
    bias : Tensor, (copies out,), optional
        Added to order 0.
    scale : Tensor, (edges, table.scale_numel) or (edges, numbers), optional
        Modulation s of each edge, or the numbers that ``radial`` maps to it.
    radial : Tensor, (numbers, table.scale_numel), optional
        That linear map; its results are never stored.
    envelope : Tensor, (edges,), optional
        Factor c of each message.

    Examples
    --------
    >>> table = SO2Table(((1, 0, False),), ((1, 1, False),), mmax=0)
    >>> edge = torch.tensor([0]), torch.tensor([0, 1]), torch.tensor([0])
    >>> back = torch.tensor([0]), torch.tensor([0]), torch.tensor([0, 1])
    >>> one, vectors = torch.ones(1, 1), torch.tensor([[3.0, 0.0, 4.0]])
    >>> so2_conv(one, vectors, torch.ones(1), (*edge, *back), table)  # the direction
    tensor([[0.6000, 0.0000, 0.8000]])
    """
    named = check_graph(x, graph)
    edges = named["source"].shape[0]
    optional = {"bias": bias, "scale": scale, "radial": radial, "envelope": envelope}
    features = {"x": x, "vectors": vectors, "weight": weight}
    features |= {name: tensor for name, tensor in optional.items() if tensor is not None}
    _check_shapes(features, table, edges)
    check_device(**features, **named)
    terms_in, terms_out = table.flat_terms
    return so2_conv_op(
        x, vectors, weight, bias, scale, radial, envelope, *graph,
        terms_in, terms_out, table.mmax, table.complex_weights, table.by_order,
    )  # fmt: skip


def _check_shapes(features: dict[str, Tensor], table: SO2Table, edges: int) -> None:
    x = features["x"]
    if "radial" in features and "scale" not in features:
        raise ValueError("radial needs scale, the numbers that it maps")
    numbers = table.scale_numel
    if "radial" in features:
        numbers = features["radial"].shape[0] if features["radial"].ndim else 0
    wanted = {
        "x": (x.shape[0] if x.ndim else 0, table.dim_in),
        "vectors": (edges, 3),
        "weight": (table.weight_numel,),
        "bias": (table.widths_out[0],),
        "scale": (edges, numbers),
        "radial": (numbers, table.scale_numel),
        "envelope": (edges,),
    }
    check_operands(features, wanted)


class Messages(NamedTuple):
    """Values on the way from sources to messages, by edges sorted by target."""

    table: SO2Table
    edges: Tensor  # (edges, 3)
    rotations: list[Tensor]  # Wigner matrices of the frames
    sent: Tensor  # (edges, table.dim_in), features of the sources
    framed: Orders  # the same in the frames
    factors: list[Tensor] | None  # modulation by order
    modulated: Orders
    matrices: list[tuple[Tensor, Tensor | None]]
    message: Tensor  # (edges, table.dim_out), without envelope

    @classmethod
    def of(cls, sent: Tensor, edges: Tensor, **rest: Any) -> Messages:
        """Compute the messages from rows of the edges and the other arguments of the op."""
        flags = {name: rest[name] for name in ("complex_weights", "by_order")}
        table = SO2Table.from_ints(rest["terms_in"], rest["terms_out"], rest["mmax"], **flags)
        scale, bias = rest["scale"], rest["bias"]
        rotations = edge_matrices(edges, table.lmax)
        modulated = framed = to_orders(sent, rotations, table.terms_in, table.mmax)
        factors = modulation(scale, rest["radial"], table)
        if factors is not None:
            modulated = [z * s for z, s in zip(framed, factors, strict=True)]
        matrices = split_matrices(rest["weight"], table)
        mixed = mix(modulated, matrices)
        if bias is not None:
            mixed[0] = mixed[0] + bias
        message = from_orders(mixed, rotations, table.terms_out, table.mmax)
        return cls(table, edges, rotations, sent, framed, factors, modulated, matrices, message)


OF_EDGES = ("vectors", "scale", "envelope")
"""Arguments with a row for each edge, in the order of their own."""


def so2_conv_reference(
    x: Tensor, source: Tensor, target: Tensor, ptr: Tensor, **arguments: Any
) -> Tensor:
    """Reference implementation of :func:`so2_conv`, differentiable by PyTorch alone."""
    edges, envelope, rest = _sorted(**arguments)
    found = Messages.of(x[source], edges, **rest)
    messages = found.message
    if envelope is not None:
        messages = messages * envelope.unsqueeze(-1)
    messages = messages.where(has_direction(found.edges), 0)
    return messages.new_zeros(ptr.shape[0] - 1, messages.shape[1]).index_add(0, target, messages)


def _sorted(order: Tensor, **arguments: Any) -> tuple[Tensor, Tensor | None, dict[str, Any]]:
    """Return edges and envelope, and all other arguments, with edges sorted by target."""
    given = {name: x for name in OF_EDGES if (x := arguments[name]) is not None}
    rest = arguments | {name: x[order] for name, x in given.items()}
    return rest.pop("vectors"), rest.pop("envelope"), rest


def to_orders(
    rows: Tensor,  # (edges, components), ir_mul
    rotations: list[Tensor],  # Wigner matrices from edge_matrices
    terms: tuple[Term, ...],  # layout of the rows
    mmax: int,  # largest order that is kept
) -> Orders:
    """Rotate rows into the frames of their edges and return the components by order."""
    found: list[list[Tensor]] = [[] for _ in range(mmax + 1)]
    for block, (_, l, swapped) in zip(_blocks(rows, terms), terms, strict=True):
        top = min(l, mmax)
        turned = (rotations[l][:, l - top : l + top + 1] @ block).unbind(1)
        found[0].append(turned[top].unsqueeze(1))
        for m in range(1, top + 1):
            plus, minus = turned[top + m], turned[top - m]
            pair = (-minus, plus) if swapped else (plus, minus)
            found[m].append(torch.stack(pair, dim=1))
    empty = rows.new_zeros(rows.shape[0], 2, 0)
    return [torch.cat([empty[:, : 1 + (m > 0)], *parts], dim=2) for m, parts in enumerate(found)]


# The gradient of one split is one copy, that of many slices as many sums of whole rows.
def _blocks(rows: Tensor, terms: tuple[Term, ...]) -> Iterator[Tensor]:
    """Yield the components of each term, (edges, 2 l + 1, copies)."""
    parts = rows.split([mul * (2 * l + 1) for mul, l, _ in terms], dim=1)
    for part, (mul, l, _) in zip(parts, terms, strict=True):
        yield part.unflatten(1, (2 * l + 1, mul))


def _copies(
    orders: Orders, terms: tuple[Term, ...]
) -> Iterator[list[Tensor]]:  # by order, (edges, 1 or 2, copies)
    """Yield the numbers of each term in the frames."""
    parts = [
        iter(part.split([mul for mul, l, _ in terms if l >= m], dim=-1))
        for m, part in enumerate(orders)
    ]
    for _, l, _ in terms:
        yield [next(part) for part in parts[: l + 1]]


def from_orders(
    orders: Orders, rotations: list[Tensor], terms: tuple[Term, ...], mmax: int
) -> Tensor:
    """Apply the transpose of :func:`to_orders`, (edges, components)."""
    parts = []
    for here, (_, l, swapped) in zip(_copies(orders, terms), terms, strict=True):
        top = min(l, mmax)
        plus, minus = [here[0].squeeze(1)], []
        for m in range(1, top + 1):
            pair = here[m].unbind(1)
            plus.append(pair[1] if swapped else pair[0])
            minus.append(-pair[0] if swapped else pair[1])
        framed = torch.stack([*minus[::-1], *plus], dim=1)
        rows = rotations[l][:, l - top : l + top + 1]
        parts.append((rows.mT @ framed).flatten(1))
    return torch.cat([orders[0].new_zeros(orders[0].shape[0], 0), *parts], dim=1)


def split_matrices(weight: Tensor, table: SO2Table) -> list[tuple[Tensor, Tensor | None]]:
    """Return views of the weight matrices by order: real part, and imaginary part or None."""
    sizes = [rows * columns for _, rows, columns in table.matrices]
    views = [
        part.unflatten(0, (rows, columns))
        for part, (_, rows, columns) in zip(weight.split(sizes), table.matrices, strict=True)
    ]
    if not table.complex_weights:
        return [(view, None) for view in views]
    pairs: list[tuple[Tensor, Tensor | None]] = [(views[0], None)]
    return pairs + list(zip(views[1::2], views[2::2], strict=True))


def mix(orders: Orders, matrices: list[tuple[Tensor, Tensor | None]]) -> Orders:
    """Multiply each order by its complex matrix."""
    found = []
    for part, (real, imaginary) in zip(orders, matrices, strict=True):
        if imaginary is None:
            found.append(part @ real.mT)
            continue
        # (A + iB)(a + ib) = (A a - B b) + i (A b + B a), as one product: its gradients are few.
        rows = torch.cat([real, -imaginary], dim=1), torch.cat([imaginary, real], dim=1)
        found.append((part.flatten(1) @ torch.cat(rows).mT).unflatten(1, (2, real.shape[0])))
    return found


def modulation(scale: Tensor | None, radial: Tensor | None, table: SO2Table) -> list[Tensor] | None:
    """Return the factors of the source components per edge, (edges, 1, width) by order, or None."""
    if scale is None:
        return None
    factors = scale if radial is None else scale @ radial
    if table.by_order:
        return [part.unsqueeze(1) for part in factors.split(list(table.widths_in), dim=1)]
    copies = factors.split([mul for mul, _, _ in table.terms_in], dim=1)
    return [
        torch.cat(
            [factors[:, :0], *(c for c, (_, l, _) in zip(copies, table.terms_in, strict=True)
                               if l >= m)],
            dim=1,
        ).unsqueeze(1)
        for m in range(table.mmax + 1)
    ]  # fmt: skip


def _fake(x: Tensor, ptr: Tensor, terms_out: list[int]) -> Tensor:
    muls, degrees = terms_out[::3], terms_out[1::3]
    dim = sum(mul * (2 * l + 1) for mul, l in zip(muls, degrees, strict=True))
    return x.new_empty(ptr.shape[0] - 1, check_row(dim))


BACKWARD_SCHEMA = (
    "so2_conv_backward(Tensor grad, Tensor x, Tensor vectors, Tensor weight, Tensor? bias, "
    "Tensor? scale, Tensor? radial, Tensor? envelope, Tensor source, Tensor ptr, Tensor order, "
    "Tensor target, Tensor back_order, Tensor back_ptr, int[] terms_in, int[] terms_out, int mmax, "
    "bool complex_weights, bool by_order, bool of_vectors, bool of_weights) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)

FEATURES = ("x", "vectors", "weight", "bias", "scale", "radial", "envelope")


def so2_conv_backward_reference(
    grad: Tensor, x: Tensor, source: Tensor, target: Tensor, order: Tensor, **arguments: Any
) -> tuple[Tensor, ...]:
    """Return the gradients of :func:`~equigeo.ops.so2_conv` in the order of its tensors."""
    edges, envelope, rest = _sorted(order, **arguments)
    found = gradients_of_edges(grad[target], x[source], edges, envelope, **rest)
    given = torch.zeros_like(order).index_copy(0, order, torch.arange(order.shape[0]).to(order))
    named = dict(zip(FEATURES, found, strict=True))
    named |= {name: named[name][given] for name in OF_EDGES if arguments[name] is not None}
    named["x"] = torch.zeros_like(x).index_add(0, source, named["x"])
    return tuple(named.values())


def gradients_of_edges(
    grad: Tensor,  # (edges, dim_out), of their targets
    x: Tensor,  # (edges, dim_in), of their sources
    vectors: Tensor,
    envelope: Tensor | None,
    of_vectors: bool,
    of_weights: bool,
    **rest: Any,
) -> tuple[Tensor, ...]:
    """Return the gradients of :func:`so2_conv`, those of features by edge."""
    found = Messages.of(x, vectors, **rest)
    table, rotations = found.table, found.rotations
    arriving = torch.where(has_direction(vectors), grad, 0)
    to_envelope = (arriving * found.message).sum(1)
    if envelope is not None:
        arriving = arriving * envelope.unsqueeze(-1)

    pulled = to_orders(arriving, rotations, table.terms_out, table.mmax)
    to_modulated = mix(pulled, transposed(found.matrices))
    products = [g * z for g, z in zip(to_modulated, found.framed, strict=True)]
    if found.factors is not None:
        to_modulated = [g * s for g, s in zip(to_modulated, found.factors, strict=True)]
    to_sent = from_orders(to_modulated, rotations, table.terms_in, table.mmax)

    # No Wigner matrix is differentiated: the gradient of an edge is (tau x u) / |r| with the torque
    # tau_k = g . G_k y - gx . G_k x, where y is the message and gx its gradient by the features.
    turned = torque(arriving, found.message, table.terms_out)
    turned = turned - torque(to_sent, x, table.terms_in)
    to_factors, scale, radial = sum_of_orders(products, table), rest["scale"], rest["radial"]
    missing = to_sent[:0, :0]  # of another result, so that it is differentiated like one
    kept = 1 if of_weights else 0
    to_scale = to_factors if radial is None else to_factors @ radial.mT
    return (
        to_sent,
        (1 if of_vectors else 0) * _edge_gradient(vectors, turned),
        kept * outer(pulled, found.modulated, table),
        missing if rest["bias"] is None else kept * pulled[0].sum((0, 1)),
        missing if scale is None else to_scale,
        missing if scale is None or radial is None else kept * (scale.mT @ to_factors),
        missing if envelope is None else to_envelope,
    )


def transposed(matrices: list[tuple[Tensor, Tensor | None]]) -> list[tuple[Tensor, Tensor | None]]:
    """Return the matrices of the adjoint map."""
    return [(real.mT, None if imag is None else -imag.mT) for real, imag in matrices]


def outer(left: Orders, right: Orders, table: SO2Table) -> Tensor:
    """Return the weight gradient from that of the result of :func:`mix`, (weight_numel,)."""
    parts = []
    for m, (arriving, sent) in enumerate(zip(left, right, strict=True)):
        if m == 0 or not table.complex_weights:
            parts.append(torch.einsum("esn,esk->nk", arriving, sent))
            continue
        both = arriving.flatten(1).mT @ sent.flatten(1)
        (plus, crossed), (back, minus) = (row.chunk(2, dim=1) for row in both.chunk(2))
        parts += [plus + minus, back - crossed]
    return torch.cat([part.flatten() for part in parts])


def sum_of_orders(orders: Orders, table: SO2Table) -> Tensor:
    """Apply the transpose of :func:`modulation` to products by order."""
    summed = [part.sum(1) for part in orders]
    if table.by_order:
        return torch.cat(summed, dim=1)
    parts = [sum(here[1:], here[0]) for here in _copies(summed, table.terms_in)]
    return torch.cat([summed[0][:, :0], *parts], dim=1)


def _edge_gradient(edges: Tensor, total: Tensor) -> Tensor:
    pole = edges.new_tensor([0.0, 1.0, 0.0])
    alive = has_direction(edges)
    safe = torch.where(alive, edges, pole)
    unit = largest_component(safe)
    scaled = safe / unit
    across = torch.linalg.cross(total, scaled) / scaled.square().sum(-1, keepdim=True)
    return torch.where(alive, across / unit, 0)


def torque(
    left: Tensor,  # (rows, components), ir_mul: g
    right: Tensor,  # (rows, components), ir_mul: y
    terms: tuple[Term, ...],  # layout of both
) -> Tensor:  # (rows, 3)
    """Return the torque g . G_k y for the generators G_k of rotations about x, y and z."""
    total = left.new_zeros(left.shape[0], 3)
    for g, y, (_, l, _) in zip(_blocks(left, terms), _blocks(right, terms), terms, strict=True):
        total = total + torch.einsum("kij,eij->ek", g.new_tensor(_entries(l)), g @ y.mT)
    return total


@cache
def _entries(l: int) -> list[list[list[float]]]:
    """Return the generators in the e3nn basis as nested lists, constants of traced programs."""
    found = [[[0.0] * (2 * l + 1) for _ in range(2 * l + 1)] for _ in range(3)]
    x, y, z = range(3)

    def put(axis: int, row: int, column: int, value: float) -> None:
        found[axis][row][column], found[axis][column][row] = value, -value

    for m in range(l):
        step = -math.sqrt((l * (l + 1) - m * (m + 1)) * (2 if m == 0 else 1)) / 2
        if m == 0:
            put(x, l, l + 1, step)
            put(z, l - 1, l, step)
            continue
        put(x, l + m, l + m + 1, step)
        put(x, l - m, l - m - 1, step)
        put(z, l - m - 1, l + m, step)
        put(z, l - m, l + m + 1, step)
    for m in range(1, l + 1):
        put(y, l - m, l + m, float(m))
    return found


def gradients(
    grad: Tensor, *, x: Tensor, vectors: Tensor, needed: set[str], **rest: Any
) -> dict[str, Tensor | None]:
    """Backward rule of :func:`equigeo.ops.so2_conv`; computes only the needed gradients."""
    of_weights = not needed.isdisjoint(("weight", "bias", "radial"))
    found = so2_conv_backward(grad, x, vectors, *rest.values(), "vectors" in needed, of_weights)
    return {name: to for name, to in zip(FEATURES, found, strict=True) if name in needed}


CHUNK = 2**31
"""Bytes of intermediate values, about, from which second gradients are computed at a time."""
NUMBERS = 12
"""Intermediate numbers of an edge, at most, for each component of its source and its message."""

_second = Signature.parse(BACKWARD_SCHEMA), ("grad", *FEATURES)
_of_all = differentiated(so2_conv_backward_reference, *_second)
_of_rows = differentiated(gradients_of_edges, *_second)


def second_gradients(*arriving: Tensor, **arguments: Any) -> Gradients:
    """Backward rule of the gradients: differentiate their reference, a chunk of edges at a time."""
    if recording() or transforms_active() or forward_mode_active():
        return _of_all(*arriving, **arguments)
    order = arguments["order"]
    size = arguments["grad"].shape[1] + arguments["x"].shape[1]
    most = max(1, CHUNK // (NUMBERS * max(1, size) * arguments["x"].element_size()))
    total: Gradients = {}
    parts: dict[str, list[Tensor]] = {}
    for first in range(0, max(1, order.shape[0]), most):
        for name, slope in _of_edges(arriving, arguments, slice(first, first + most)).items():
            if name in OF_EDGES:
                parts.setdefault(name, []).append(slope)
            else:
                known = total.get(name)
                total[name] = slope if known is None else known + slope
    for name, slopes in parts.items():
        total[name] = torch.zeros_like(arguments[name]).index_copy(0, order, torch.cat(slopes))
    return total


def _of_edges(
    arriving: tuple[Tensor, ...], arguments: dict[str, Any], chunk: slice
) -> dict[str, Tensor]:
    """Return what some edges add to second gradients, or their rows of those of edges."""
    source, target, own = (arguments[name][chunk] for name in ("source", "target", "order"))
    rows = {"grad": target, "x": source} | dict.fromkeys(OF_EDGES, own)
    rows = {name: at for name, at in rows.items() if arguments[name] is not None}
    local = arguments | {name: arguments[name][at] for name, at in rows.items()}
    named = zip(FEATURES, arriving, strict=True)
    along = (to[rows[name]] if name in rows else to for name, to in named)
    found = cast(dict[str, Tensor], _of_rows(*along, **local))
    # Edges have rows of their own until here, so that these sums have a fixed order.
    for name in ("grad", "x"):
        found[name] = _sum_at(found[name], rows[name], arguments[name].shape[0])
    return found


def _sum_at(
    rows: Tensor,  # (edges, components)
    end: Tensor,  # (edges,)
    count: int,
) -> Tensor:  # (count, components)
    """Sum rows of edges at their ends."""
    ends, order = end.sort(stable=True)
    ptr = torch.searchsorted(ends, torch.arange(count + 1, device=end.device))
    each = torch.arange(rows.shape[0] + 1, device=end.device)
    return gather_sum_op(rows, order, ptr, end, each)


so2_conv_backward = declare(
    BACKWARD_SCHEMA,
    reference=so2_conv_backward_reference,
    fake=like(*FEATURES),
    backward=second_gradients,
    batch=each_of_a_batch("so2_conv_backward"),
)

so2_conv_op = declare(
    SCHEMA,
    reference=so2_conv_reference,
    fake=_fake,
    backward=gradients,
    batch=each_of_a_batch("so2_conv"),
)
