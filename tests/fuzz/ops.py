"""Every op of the op table with tampered arguments."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import torch
from torch import Tensor

from tests.fuzz.case import Case
from tests.ops.op_table import OPS, Op
from tests.ops.problems import Problem

REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)
PROBLEMS = [
    Problem("small", 4, 5, 9, heads=2, channels=3, isolated=1),
    Problem("whole registers", 6, 3, 40, heads=1, channels=16),
    Problem("no edges", 3, 2, 0),
    Problem("no sources", 0, 3, 0),
    Problem("nothing", 0, 0, 0),
]
DTYPES = [
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.uint8, torch.int32, torch.int64, torch.bool, torch.complex64,
]  # fmt: skip
FAR = [-1, -(2**31), -(2**62), -(2**63), 2**31 - 1, 2**31, 2**40, 2**62 - 1, 2**62, 2**63 - 1]
FLOATS = [0.0, -1.0, 1e-300, 1e300, float("nan"), float("inf"), -float("inf")]


def cases(seed: int) -> Iterator[Case]:
    """Go through the table again and again."""
    for turn in itertools.count():
        for place, op in enumerate(OPS):
            name = f"{seed} {turn} {place}"
            random = Random(name)
            changes = [random.choice(CHANGES) for _ in range(random.choice([1, 1, 1, 2, 3]))]
            words = ", ".join(change.__name__ for change in changes)
            yield Case(f"{op}: {words}", partial(call_changed, op, changes, name), REFUSALS)


def call_changed(op: Op, changes: list[Callable[..., Any]], name: str) -> None:
    """Call an op with some changes."""
    random = Random(name)
    problem = random.choice(PROBLEMS)
    dtype = random.choice([torch.float32, torch.float64])
    wants_gradient = random.random() < 0.3
    features = [x.requires_grad_(wants_gradient) for x in op.features(problem, dtype)]
    rest = [x.to(dtype) if x.is_floating_point() else x for x in op.rest(problem.graph())]
    direct = random.random() < 0.5
    arguments: list[Any] = [*features, *rest]
    if direct:
        arguments = op.arguments(arguments)
    for change in changes:
        place = random.randrange(len(arguments))
        with suppress(Exception):  # a change of what was changed before may be impossible
            arguments[place] = change(arguments[place], random)
    function = op.overload if direct else op.call
    differentiate(function(*arguments))


def differentiate(results: Any) -> None:
    """Call the op of the gradient with what was kept for it, where there is one."""
    results = results if isinstance(results, tuple) else (results,)
    for result in results:
        if isinstance(result, Tensor) and result.requires_grad:
            result.sum().backward(retain_graph=True)


def number(value: Any, random: Random) -> Any:
    """Another constant; in a tensor, a few other numbers."""
    if isinstance(value, bool) or value is None:
        return value if value is None else not value
    if isinstance(value, int):
        return random.choice([*FAR, 0, 1, value + 1, 10**6])
    if isinstance(value, float):
        return random.choice(FLOATS)
    if isinstance(value, Tensor) and value.numel() > MOST_NUMBERS:
        return value
    if isinstance(value, list | tuple):
        # Twice such a number is one that PyTorch can read.
        changed = [
            number(item, random) % 2**61 if random.random() < 0.5 else item for item in value
        ]
        return random.choice([changed, changed[:-1], [*changed, 1], []])
    return some_numbers(value, random)


def some_numbers(value: Tensor, random: Random) -> Tensor:
    changed = value.detach().clone().contiguous()
    flat = changed.view(-1)
    for _ in range(min(len(flat), random.choice([1, 1, 2, 5]))):
        at = random.randrange(len(flat))
        flat[at] = other_number(flat[at], len(value), random)
    return changed


def other_number(value: Tensor, size: int, random: Random) -> float | int:
    if value.is_floating_point():
        return random.choice(FLOATS)
    near = int(value) + random.choice([-2, -1, 1, 2])
    return random.choice([near, near, random.choice(FAR), 0, size, size - 1, random.randrange(20)])


MOST_NUMBERS = 10**6


def tensors_only(change: Callable[[Tensor, Random], Any]) -> Callable[[Any, Random], Any]:
    def changed(value: Any, random: Random) -> Any:
        if not isinstance(value, Tensor):
            return number(value, random)
        # What claims to be huge is left so: a copy of it is no call of an op.
        return value if value.numel() > MOST_NUMBERS else change(value, random)

    changed.__name__ = change.__name__
    return changed


@tensors_only
def all_numbers(value: Tensor, random: Random) -> Tensor:
    if value.numel() == 0:
        return value
    return torch.full_like(value, other_number(value.flatten()[0], len(value), random))


@tensors_only
def order(value: Tensor, random: Random) -> Tensor:
    """The same numbers elsewhere."""
    generator = torch.Generator().manual_seed(random.randrange(1000))
    return value.flatten()[torch.randperm(value.numel(), generator=generator)].view(value.shape)


@tensors_only
def rows_again(value: Tensor, random: Random) -> Tensor:
    """Rows of a table twice, or one of them for all."""
    if value.ndim == 0 or not 0 < len(value) < MOST_NUMBERS:
        return value
    return value[torch.tensor([random.randrange(len(value)) for _ in range(len(value))])]


@tensors_only
def dtype(value: Tensor, random: Random) -> Tensor:
    return value.detach().to(random.choice(DTYPES))


@tensors_only
def shape(value: Tensor, random: Random) -> Tensor:
    longer = torch.cat([value, value]) if value.ndim else value[None]
    shapes = [
        value[:-1] if value.ndim else value,
        value[:0] if value.ndim else value,
        longer,
        value[..., :-1] if value.ndim else value,
        value[..., :0] if value.ndim else value,
        value.flatten(),
        value[None],
        value[..., None],
        value.mT.contiguous() if value.ndim > 1 else value,
        value.new_zeros(()),
    ]
    return random.choice(shapes)


@tensors_only
def extent(value: Tensor, random: Random) -> Tensor:
    """Sizes beyond all memory, of tensors that take none: of stride zero, or without elements."""
    sizes = [max(1, size) for size in value.shape] or [1]
    axis = random.randrange(len(sizes))
    if len(sizes) == 1 or random.random() < 0.5:
        sizes[axis] = random.choice([2**31, 2**36, 2**40])
        return value.new_zeros(()).expand(sizes)
    sizes[axis] = random.choice([2**31, 2**40, 2**47, 2**62])
    sizes[axis - 1] = 0
    return value if value.is_meta else value.new_empty(sizes)


@tensors_only
def strides(value: Tensor, random: Random) -> Tensor:
    """The same numbers with gaps, backwards in memory, or one number for all."""
    if value.numel() == 0 or value.ndim == 0:
        return value
    gaps = torch.stack([value, value, value], dim=-1)[..., 1]
    turned = value.mT.contiguous().mT if value.ndim > 1 else gaps
    return random.choice([gaps, turned, value.flatten()[0].expand(value.shape)])


@tensors_only
def device(value: Tensor, random: Random) -> Tensor:
    # PyTorch itself loses count of larger ones there.
    return value.to("meta") if max(value.shape, default=0) < 2**31 else value


@tensors_only
def layout(value: Tensor, random: Random) -> Tensor:
    """A view that negates; zeros without memory. Only public functions refuse sparse tensors."""
    if not value.is_floating_point():
        return value
    zeros = torch._efficientzerotensor(value.shape, dtype=value.dtype)
    return random.choice([torch._neg_view(value), zeros])


@tensors_only
def gradient(value: Tensor, random: Random) -> Tensor:
    return value.detach().requires_grad_() if value.is_floating_point() else value


CHANGES = [
    number, number, number, all_numbers, order, rows_again, dtype, shape, shape, extent, extent,
    strides, device, layout, gradient,
]  # fmt: skip
