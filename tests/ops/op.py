"""A row of the op table, and which ops run."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from equigeo import ops
from equigeo._core.tensors import computed_in
from equigeo.graphs import EdgeIndex
from equigeo.ops.runtime.declare import SCHEMAS, declared, reference_of
from equigeo.ops.runtime.tape import Signature
from tests.ops.problems import Problem


@dataclass(frozen=True)
class Op:
    """An op, its reference, and how to make arguments: features first, then the fixed rest.

    Features are given the dtype of the test, and the rest that in which it is computed, unless that
    is ``stored`` like features; ``missing`` are positions of features that ``call`` leaves out,
    ``constants`` end the arguments of the overload. A body made of matrix products of a BLAS, which
    rounds as it likes by number of threads and alignment, is ``blas``. ``terms`` is the length of
    sums over the fixed rest. Rows ``of_kernels`` differ from others in what kernels alone notice.
    Where a row has a ``problem``, it takes the place of all others.
    """

    name: str
    call: Callable[..., Any]
    reference: Callable[..., Any]
    features: Callable[[Problem, torch.dtype], list[Tensor]]
    rest: Callable[[EdgeIndex], list[Tensor]]
    label: str
    missing: tuple[int, ...]
    constants: tuple[Any, ...]
    blas: bool = False
    terms: int = 1
    stored: bool = False
    of_kernels: bool = False
    problem: Problem | None = None

    def tables(self, rest: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
        """The fixed rest for features of a dtype."""
        dtype = dtype if self.stored else computed_in(dtype)
        return [x.to(dtype) if x.is_floating_point() else x for x in rest]

    def problems(self, others: Sequence[Problem]) -> Sequence[Problem]:
        """The only problem of this row, or all others."""
        return [self.problem] if self.problem else others

    def arguments(self, tensors: Iterable[Tensor]) -> list[Any]:
        """All arguments of the overload, by position."""
        return arguments(tensors, self.missing, self.constants)

    @property
    def overload(self) -> Any:
        return getattr(torch.ops.equigeo, self.name).default

    def __str__(self) -> str:
        return self.label


def arguments(
    tensors: Iterable[Tensor], missing: Iterable[int], constants: Iterable[Any]
) -> list[Any]:
    given: list[Any] = [*tensors, *constants]
    for position in missing:
        given.insert(position, None)
    return given


def op_row(  # noqa: PLR0913 - most by name
    name: str,
    label: str,
    shapes: Callable[[Problem], dict[str, tuple[int, ...]]],
    rest: Callable[[EdgeIndex], list[Tensor]],
    *constants: Any,
    call: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    without: Sequence[str] = (),
    results: Sequence[int] = (),
    changes: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
    **options: Any,
) -> Op:
    """Return a row of random features of some shapes, by their names in the schema.

    ``call``, by default the public function of that name or the op, and ``reference`` take all
    arguments of the schema by position, None for optional ones that a row is ``without``.
    ``changes`` apply to drawn features; ``results`` are those that are compared, by default all.
    """
    missing = tuple(sorted(map(Signature.parse(SCHEMAS[name]).arguments.index, without)))

    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        def draw(given: str, shape: tuple[int, ...]) -> Tensor:
            if given not in (changes or {}):
                return problem.randn(given, *shape, dtype=dtype)
            return changes[given](problem.randn(given, *shape, dtype=torch.float64)).to(dtype)

        return [draw(*item) for item in shapes(problem).items()]

    def by_schema(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*tensors: Tensor) -> Any:
            found = function(*arguments(tensors, missing, constants))
            if len(results) == 1:
                return found[results[0]]
            return tuple(found[k] for k in results) if results else found

        return call

    call = by_schema(call or getattr(ops, name, None) or declared(name))
    reference = by_schema(reference or reference_of(name))
    label = label or name
    return Op(name, call, reference, features, rest, label, missing, constants, **options)


def of_kernels(rows: Iterable[Op]) -> Iterator[Op]:
    return (replace(row, of_kernels=True) for row in rows)


class Seen(TorchDispatchMode):
    """Names of the ops of this package that are called, and their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.arguments: list[tuple[Any, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "equigeo":
            self.names.append(func._schema.name.partition("::")[2])
            self.arguments.append(tuple(args))
        return func(*args, **(kwargs or {}))
