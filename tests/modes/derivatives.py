"""Columns of derivatives: each way to one is compared with another."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from tests.modes.row import Bound, Row, assert_close

Tensors = tuple[Tensor, ...]

SAME = {"rtol": 1e-8, "atol": 1e-9}  # two ways through the same arithmetic in float64
DIFFERENCES = {"rtol": 1e-4, "atol": 1e-6}  # central differences by STEP, less its rounding
STEP = 1e-6


def backward(row: Row) -> None:
    """Gradients of inputs and parameters, against central differences."""
    bound, inputs = row.bound(), row.inputs()
    variables = [*bound.parameters(), *(x.requires_grad_() for x in inputs)]
    loss = scalar(bound, inputs)
    directions = like(variables, seed=3)
    slopes = gradients(loss, tuple(variables), inputs)
    assert empty(bound(*inputs)) or any(bool(slope.any()) for slope in slopes), (
        "a function that depends on nothing"
    )
    step = STEP / 10 if row.kinks else STEP
    differences = along(lambda: loss(*inputs).detach(), variables, directions, step)
    assert_close(dot(slopes, directions), differences, **DIFFERENCES)


def double_backward(row: Row) -> None:
    """Hessian-vector products by two backward passes, against differences of gradients."""
    bound, inputs = row.bound(), tuple(x.requires_grad_() for x in row.inputs())
    loss = scalar(bound, inputs)
    directions, others = like(inputs, seed=3), like(inputs, seed=4)

    def slope() -> Tensor:
        return dot(gradients(loss, inputs), others).detach()

    products = dot(hvp(loss, inputs, directions), others)
    if row.kinks:  # what is left to see is that second derivatives are symmetric
        assert_close(products, dot(hvp(loss, inputs, others), directions), **SAME)
        return
    assert_close(products, along(slope, inputs, directions), **DIFFERENCES)


def zero_cotangent(row: Row) -> None:
    """The backward pass is linear in the output gradient, also at zero (double-backward trick)."""
    bound, inputs = row.bound(), tuple(x.requires_grad_() for x in row.inputs())
    results = bound(*inputs)
    free = [r for r in results if r.requires_grad]
    if not free:
        assert empty(results)
        return
    zeros = [torch.zeros_like(r, requires_grad=True) for r in free]
    pulled = torch.autograd.grad(free, inputs, zeros, create_graph=True, materialize_grads=True)
    assert not any(bool(x.any()) for x in pulled)
    directions, cotangents = like(inputs, seed=3), like(free, seed=4)
    # Summed before it is differentiated: inputs that do not matter have no graph.
    tangents = torch.autograd.grad(
        dot(pulled, directions), zeros, materialize_grads=True, allow_unused=True
    )
    want = torch.autograd.grad(free, inputs, cotangents, materialize_grads=True)
    assert_close(dot(tangents, cotangents), dot(want, directions), **SAME)
    still = [torch.zeros_like(x) for x in inputs]
    _, none = torch.func.jvp(bound, tuple(x.detach() for x in inputs), tuple(still))
    assert not any(bool(x.any()) for x in none)


def forward_mode(row: Row) -> None:
    """Tangents by ``torch.func.jvp`` and by dual numbers, against reverse mode."""
    bound, inputs = row.bound(), row.inputs()
    directions = like(inputs, seed=3)
    _, tangents = torch.func.jvp(bound, inputs, directions)
    cotangents = like(tangents, seed=4)
    live = tuple(x.clone().requires_grad_() for x in inputs)
    results = bound(*live)
    if empty(results):
        return
    pairs = [(r, g) for r, g in zip(results, cotangents, strict=True) if r.requires_grad]
    free, given = [r for r, _ in pairs], [g for _, g in pairs]
    slopes = torch.autograd.grad(free, live, given, materialize_grads=True)
    want = dot(slopes, directions)
    assert_close(dot(tangents, cotangents), want, **SAME)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(*pair) for pair in zip(inputs, directions, strict=True)]
        moved = [forward_ad.unpack_dual(x).tangent for x in bound(*duals)]
    found = [
        torch.zeros_like(g) if t is None else t for t, g in zip(moved, cotangents, strict=True)
    ]
    assert_close(dot(found, cotangents), want, **SAME)


def forward_over_reverse(row: Row) -> None:
    """Hessian-vector products by ``jvp`` of gradients, against two backward passes."""
    bound, inputs = row.bound(), row.inputs()
    loss, directions = scalar(bound, inputs), like(inputs, seed=3)
    want = hvp(loss, tuple(x.clone().requires_grad_() for x in inputs), directions)
    every = tuple(range(len(inputs)))
    _, found = torch.func.jvp(torch.func.grad(loss, argnums=every), inputs, directions)
    assert_close(found, want, **SAME)


def vmap(row: Row) -> None:
    """``torch.func.vmap`` over all inputs and over the first input, against a loop."""
    bound, inputs = row.bound(), row.inputs()
    batch = [torch.stack([x, x + 0.05 * d]) for x, d in zip(inputs, like(inputs, 3), strict=True)]
    found = torch.func.vmap(bound)(*batch)
    each = [bound(*(x[k] for x in batch)) for k in range(2)]
    for one, parts in zip(found, zip(*each, strict=True), strict=True):
        assert_close(one, torch.stack(parts), **SAME)
    found = torch.func.vmap(bound, (0, *[None] * (len(inputs) - 1)))(batch[0], *inputs[1:])
    each = [bound(x, *inputs[1:]) for x in batch[0]]
    for one, parts in zip(found, zip(*each, strict=True), strict=True):
        assert_close(one, torch.stack(parts), **SAME)


def jacrev(row: Row) -> None:
    """Jacobian of three projections of the output, by reverse and by forward mode."""
    bound, inputs = row.bound(), row.inputs()
    targets = [like(bound(*inputs), seed) for seed in (3, 4, 5)]

    bases = directions_of(inputs)

    def projected(move: Tensor) -> Tensor:
        results = bound(*shifted(inputs, bases, move))
        return torch.stack([dot(results, target) for target in targets])

    move = torch.zeros(4, dtype=torch.float64)
    want = torch.autograd.functional.jacobian(projected, move)
    assert_close(torch.func.jacrev(projected)(move), want, **SAME)
    assert_close(torch.func.jacfwd(projected)(move), want, **SAME)


def hessian(row: Row) -> None:
    """Second derivatives along four directions, by ``torch.func.hessian``."""
    bound, inputs = row.bound(), row.inputs()
    loss, bases = scalar(bound, inputs), directions_of(inputs)

    def moved(move: Tensor) -> Tensor:
        return loss(*shifted(inputs, bases, move))

    move = torch.zeros(4, dtype=torch.float64)
    want = torch.autograd.functional.hessian(moved, move)
    assert_close(torch.func.hessian(moved)(move), want, **SAME)


def scalar(bound: Bound, inputs: Tensors) -> Callable[..., Tensor]:
    """A smooth function of all results, not linear in them."""
    targets = like(bound(*inputs), seed=2)

    def loss(*given: Tensor) -> Tensor:
        return sum_of(
            (r * t).sum() + 0.5 * r.square().mean()
            for r, t in zip(bound(*given), targets, strict=True)
            if r.numel()
        )

    return loss


def sum_of(parts: object) -> Tensor:
    total: Tensor = sum(parts, torch.zeros((), dtype=torch.float64))  # type: ignore[call-overload]
    return total


def like(tensors: Sequence[Tensor], seed: int) -> Tensors:
    """Random directions."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(x.shape, generator=generator, dtype=torch.float64) for x in tensors)


def dot(a: Sequence[Tensor], b: Sequence[Tensor]) -> Tensor:
    return sum_of((x * y).sum() for x, y in zip(a, b, strict=True))


def directions_of(inputs: Tensors) -> list[Tensors]:
    """Four fixed directions, so that tables of derivatives are small."""
    return [like(inputs, seed=10 + k) for k in range(4)]


def shifted(inputs: Tensors, bases: list[Tensors], move: Tensor) -> Tensors:
    """Inputs moved along directions."""
    return tuple(
        x + sum(m * basis[i] for m, basis in zip(move, bases, strict=True))
        for i, x in enumerate(inputs)
    )


def empty(results: Tensors) -> bool:
    return not any(x.numel() for x in results)


def gradients(
    loss: Callable[..., Tensor], variables: Tensors, inputs: Tensors | None = None
) -> Tensors:
    """Gradients of a function of inputs with respect to them, or to other variables."""
    value = loss(*(variables if inputs is None else inputs))
    if not value.requires_grad:  # a function of which nothing can be differentiated
        return tuple(torch.zeros_like(x) for x in variables)
    return torch.autograd.grad(value, variables, create_graph=True, materialize_grads=True)


def hvp(loss: Callable[..., Tensor], inputs: Tensors, directions: Tensors) -> Tensors:
    slope = dot(gradients(loss, inputs), directions)
    if not slope.requires_grad:
        return tuple(torch.zeros_like(x) for x in inputs)
    return torch.autograd.grad(slope, inputs, materialize_grads=True)


def loss_gradients(function: Callable[..., Tensors], inputs: Tensors) -> Tensors:
    """Results, and the gradients of a function of them with respect to the inputs."""
    live = tuple(x.detach().as_strided(x.shape, x.stride()).requires_grad_() for x in inputs)
    results = tuple(function(*live))
    value = dot(results, like(results, seed=2))
    slopes: Tensors = ()
    if value.requires_grad:  # the flags of a cloud in one dimension do not
        slopes = torch.autograd.grad(value, live, materialize_grads=True)
    return (*(r.detach() for r in results), *slopes)


def along(
    value: Callable[[], Tensor],
    variables: Sequence[Tensor],
    directions: Tensors,
    step: float = STEP,
) -> Tensor:
    """Central difference of a function of variables that are moved in place."""
    values = []
    for sign in (1, -2):
        with torch.no_grad():
            for x, d in zip(variables, directions, strict=True):
                x.add_(sign * step * d)
        values.append(value())
    with torch.no_grad():
        for x, d in zip(variables, directions, strict=True):
            x.add_(step * d)
    return (values[0] - values[1]) / (2 * step)


COLUMNS = [
    backward,
    double_backward,
    zero_cotangent,
    forward_mode,
    forward_over_reverse,
    vmap,
    jacrev,
    hessian,
]
