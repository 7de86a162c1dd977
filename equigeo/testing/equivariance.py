"""Assertion of equivariance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equigeo.groups import Group
from equigeo.ops.runtime.tolerance import tolerance
from equigeo.reps import Irreps, Points, Representation, Trivial
from equigeo.testing.assert_group import assert_group

_checked: set[Group] = set()
"""Groups whose laws were checked in this process."""

RepsIn = Representation | str | Sequence[Representation | str | None] | None
RepsOut = Representation | str | Sequence[Representation | str] | None
LARGEST = 0.05
"""No relative error above this is rounding: a bound of half precision would let anything pass."""


def assert_equivariant(
    fn: Callable[..., Any],
    rep_in: RepsIn = None,
    rep_out: RepsOut = None,
    *,
    inputs: Sequence[Any],
    elements: Tensor | None = None,
    condition: float = 1.0,
) -> None:
    """Check that ``fn(g x) == g fn(x)`` for random and special elements of the group.

    Actions are computed in float64 and cast to the dtype of the input. The error is relative to the
    largest component of the expected output; the bound is ``tolerance(dtype, terms, condition)``
    for the coarsest dtype and at least 64 terms, but 0.05 at most. Test in a finer dtype than half
    precision: rounding hides smaller errors.

    Incomplete declarations, and laws that hold for every function because nothing moves or every
    output is zero, raise ``ValueError``. The group itself is checked once per process, see
    :func:`equigeo.testing.assert_group`.

    Parameters
    ----------
    fn : callable
        Function or module, whose attributes ``rep_in`` and ``rep_out`` are the defaults.
    rep_in : Representation or sequence of (Representation or None), optional
        One entry per input; text stands for irreps. None stands for an object with its own
        ``act(g)``, such as a TriangleMesh, and for a fixed argument, such as an edge list.
    rep_out : Representation or sequence of Representation, optional
        One entry per output. ``Trivial(group, dim)`` declares an invariant one,
        ``Trivial(group, 1)`` any number of invariants. Integer outputs must be invariant.
    inputs : sequence
        Arguments of ``fn``; features are floating tensors (..., dim).
    elements : Tensor, (elements, size, size), floating, optional
        By default ``group.testing_elements`` with a fixed seed. The group is the largest declared
        one that acts through all representations.
    condition : float
        Factor by which ``fn`` amplifies relative rounding errors, at least 1.

    Raises
    ------
    AssertionError
        With the element, its determinant, the error and the tolerance.

    Examples
    --------
    >>> from equigeo.reps import Irreps
    >>> x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    >>> vector, pseudovector = Irreps("1o"), Irreps("1e")
    >>> inputs = [x, x.flip(0)]
    >>> assert_equivariant(torch.linalg.cross, [vector, vector], pseudovector, inputs=inputs)
    >>> assert_equivariant(torch.linalg.cross, [vector, vector], vector, inputs=inputs)
    Traceback (most recent call last):
    ...
    AssertionError: output 0 is not equivariant under O(3): relative error 2 exceeds 3.1e-05 ...
    """
    law = Law.resolve(fn, rep_in, rep_out, inputs=inputs, elements=elements)
    reps = [rep for rep in (*law.reps_in, *law.reps_out) if rep is not None]
    terms = max(64, *(rep.dim for rep in reps))
    worst = law.worst()
    rounding = tolerance(worst.dtype, terms, condition)["rtol"]
    bound = min(rounding, LARGEST)
    if worst.error > bound:
        entries = [[round(value, 4) for value in row] for row in worst.g.tolist()]
        doubt = ""
        if LARGEST < worst.error <= rounding:
            doubt = f"; it may be rounding of {worst.dtype}: test in a finer dtype"
        raise AssertionError(
            f"output {worst.output} is not equivariant under {law.group}: relative error "
            f"{worst.error:.2g} exceeds {bound:.2g} at the element of determinant "
            f"{float(torch.linalg.det(worst.g)):+.3g}, g = {entries}{doubt}"
        )


def equivariance_error(
    fn: Callable[..., Any],
    rep_in: RepsIn = None,
    rep_out: RepsOut = None,
    *,
    inputs: Sequence[Any],
    elements: Tensor | None = None,
) -> float:
    r"""Return the largest relative violation of ``fn(g x) == g fn(x)``, zero for an exact law.

    .. math:: \max_{g,\,k} \frac{\max_i |f_k(g x) - \rho_k(g) f_k(x)|_i}
                                {\max_i |\rho_k(g) f_k(x)|_i}

    over elements g and outputs k; absolute if the expected output is zero, 1 if an integer output
    changes, infinite for NaN or another shape. Arguments are those of
    :func:`equigeo.testing.assert_equivariant`.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import O
    >>> from equigeo.reps import TensorRep, Trivial
    >>> x = torch.eye(3, dtype=torch.float64)
    >>> largest = lambda v: v.abs().amax(-1, keepdim=True)  # not the length
    >>> equivariance_error(largest, TensorRep(O(3)), Trivial(O(3), 1), inputs=[x]) > 0.1
    True
    """
    return Law.resolve(fn, rep_in, rep_out, inputs=inputs, elements=elements).worst().error


@dataclass(frozen=True)
class Violation:
    """Deviation of one output from the law at one element."""

    error: float  # largest deviation relative to the largest expected component
    g: Tensor  # (size, size), float64
    output: int  # position of the output
    dtype: torch.dtype  # coarsest floating dtype of moving inputs and outputs, by default float64


@dataclass(frozen=True, eq=False)
class Law:
    """A function with the representations of its arguments and outputs, all of one group."""

    fn: Callable[..., Any]
    # one per input; None for objects with an action and for fixed arguments
    reps_in: tuple[Representation | None, ...]
    reps_out: tuple[Representation, ...]  # one per output
    inputs: tuple[Any, ...]
    group: Group  # source of elements
    elements: Tensor  # (elements, size, size), float64

    @classmethod
    def resolve(
        cls,
        fn: Callable[..., Any],  # its attributes rep_in and rep_out are the defaults
        rep_in: RepsIn,
        rep_out: RepsOut,
        *,
        inputs: Sequence[Any],
        elements: Tensor | None,  # as in assert_equivariant
    ) -> Law:
        """Build a law from a declaration; raise if it is incomplete, inconsistent or trivial."""
        if isinstance(inputs, Tensor) or not isinstance(inputs, Sequence):
            raise TypeError(f"inputs must be a sequence of arguments, got {type(inputs).__name__}")
        reps_in = _inputs_declared(rep_in or getattr(fn, "rep_in", None), inputs)
        reps_out = _outputs_declared(rep_out or getattr(fn, "rep_out", None))
        for rep, x in zip(reps_in, inputs, strict=True):
            _check_input(rep, x)
        group = _common_group([rep for rep in (*reps_in, *reps_out) if rep is not None])
        if group not in _checked:
            assert_group(group)
            _checked.add(group)
        reps_in = tuple(rep and _restrict(rep, group) for rep in reps_in)
        reps_out = tuple(_restrict(rep, group) for rep in reps_out)
        moves = any(_has_action(x) for x in inputs)
        declared = [rep for rep in (*reps_in, *reps_out) if rep is not None]
        if not moves and all(rep.is_trivial() for rep in declared):
            raise ValueError(
                f"the law is trivial: {group} moves neither an input nor an output, "
                "so that every function obeys it"
            )
        return cls(fn, reps_in, reps_out, tuple(inputs), group, _elements(elements, group))

    def violations(self) -> Iterator[Violation]:
        """Yield one violation per element and output, including zero ones."""
        outputs = self._call([_copy(x) for x in self.inputs])
        # What stays fixed, an index or a weight, rounds nothing that moves.
        moving = (x for x, rep in zip(self.inputs, self.reps_in, strict=True) if rep is not None)
        dtype = _coarsest((*moving, *outputs))
        if not any(bool(torch.count_nonzero(y)) for y in outputs):
            raise ValueError("every output is zero or empty, so that any law holds; give others")
        for k, (rep, y) in enumerate(zip(self.reps_out, outputs, strict=True)):
            if y.numel() and not rep.is_trivial() and not bool(torch.count_nonzero(y)):
                raise ValueError(f"output {k} is zero, so that any law holds; give other inputs")
        for g in self.elements:
            pairs = zip(self.reps_in, self.inputs, strict=True)
            moved = self._call([_move(g, rep, x) for rep, x in pairs])
            triples = zip(self.reps_out, outputs, moved, strict=True)
            for k, (rep, y, got) in enumerate(triples):
                yield Violation(_deviation(rep, g, y, got), g, k, dtype)

    def worst(self) -> Violation:
        """Return the largest violation, counting NaN as infinite."""
        return max(self.violations(), key=lambda violation: violation.error)

    def _call(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        result = self.fn(*inputs)
        outputs = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        if len(outputs) != len(self.reps_out):
            raise ValueError(f"{len(self.reps_out)} outputs are declared, got {len(outputs)}")
        for rep, y in zip(self.reps_out, outputs, strict=True):
            if not isinstance(y, Tensor):
                raise TypeError(f"outputs must be tensors, got {type(y).__name__}")
            if not y.is_floating_point() and not rep.is_trivial():
                raise TypeError(f"an output of type {y.dtype} can only be invariant, not {rep}")
        # Copies: the next call may write into the same memory.
        copies = (y.detach().clone() for y in outputs)
        return tuple(y.reshape(1) if y.ndim == 0 else y for y in copies)


def _inputs_declared(rep_in: RepsIn, inputs: Sequence[Any]) -> tuple[Representation | None, ...]:
    if rep_in is None:
        return (None,) * len(inputs)
    reps = _several(rep_in)
    if len(reps) != len(inputs):
        raise ValueError(
            f"rep_in must name one representation per input, None where it is fixed: "
            f"got {len(reps)} for {len(inputs)} inputs"
        )
    return reps


def _several(given: Any) -> tuple[Any, ...]:
    """Convert one or several representations to a tuple; text is parsed as irreps."""
    found = (given,) if isinstance(given, (Representation, str)) else tuple(given)
    return tuple(Irreps(rep) if isinstance(rep, str) else rep for rep in found)


def _outputs_declared(rep_out: RepsOut) -> tuple[Representation, ...]:
    reps = _several(rep_out or ())
    if not reps or not all(isinstance(rep, Representation) for rep in reps):
        raise ValueError(
            "rep_out must name one representation per output; "
            f"declare an invariant output by Trivial(group, dim), got {rep_out!r}"
        )
    return reps


def _check_input(rep: Representation | None, x: Any) -> None:
    if rep is None:
        return
    if not isinstance(rep, Representation):
        raise TypeError(f"rep_in must hold representations and None, got {rep!r}")
    if _has_action(x):
        raise ValueError(f"{type(x).__name__} has its own action: its rep_in must be None")
    if not isinstance(x, Tensor) or not x.is_floating_point():
        what = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"an input of {rep} must be a floating tensor, got {what}")
    rep.check_features(x)


def _has_action(x: Any) -> bool:
    return not isinstance(x, Tensor) and callable(getattr(x, "act", None))


def _common_group(reps: Sequence[Representation]) -> Group:
    """Return the largest declared group that acts through every representation."""
    groups = [rep.group for rep in reps]
    able = [group for group in groups if all(group.maps_to(other) for other in groups)]
    if not able:
        names = ", ".join(sorted({str(group) for group in groups}))
        raise ValueError(f"no declared group acts everywhere: {names}; use restrict")
    # the largest group is the strictest: it includes translations if an input has them
    return max(able, key=lambda group: len(group.generators()))


def _restrict(rep: Representation, group: Group) -> Representation:
    """Restrict to the common group; points of a linear group are vectors of an affine one."""
    if isinstance(rep, Points) and group.size > rep.group.size:
        raise ValueError(f"{rep} has no action of translations of {group}; use Points({group})")
    return rep.restrict(group)


def _elements(elements: Tensor | None, group: Group) -> Tensor:
    if elements is None:
        # always the same ones, and the caller's random numbers stay as they are
        return group.testing_elements(torch.Generator().manual_seed(0))
    if elements.ndim != 3 or len(elements) == 0:
        raise ValueError(
            f"elements must be (elements, {group.size}, {group.size}), got {tuple(elements.shape)}"
        )
    if not bool(group.contains(elements).all()):
        raise ValueError(f"elements must belong to {group}")
    if bool((elements == group.identity().to(elements)).all()):
        raise ValueError("elements must hold more than the identity, at which every law holds")
    return elements.double()


def _coarsest(values: Sequence[Any]) -> torch.dtype:
    dtypes = [x.dtype for x in values if isinstance(x, Tensor) and x.is_floating_point()]
    return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float64)


def _copy(x: Any) -> Any:
    """Copy features, so that in-place changes by a function do not modify the data."""
    if isinstance(x, Tensor) and x.is_floating_point():
        return x.detach().clone().requires_grad_(x.requires_grad)
    return x


def _move(g: Tensor, rep: Representation | None, x: Any) -> Any:
    if rep is not None:
        # in float64 and rounded once, so that the data add no more than one rounding to the law
        moved = rep.act(g.to(x.device), x.detach().double()).to(x.dtype)
        return moved.requires_grad_(x.requires_grad)
    return x.act(g) if _has_action(x) else _copy(x)


def _deviation(rep: Representation, g: Tensor, y: Tensor, got: Tensor) -> float:
    """Return the relative distance of ``got`` from ``g`` acting on ``y``."""
    if got.shape != y.shape:
        return float("inf")
    if not y.is_floating_point():
        return float((got != y).any())
    invariants = isinstance(rep, Trivial) and rep.dim == 1  # however many there are
    want = y.double() if invariants else rep.act(g.to(y.device), y.double())
    if want.numel() == 0:
        return 0.0
    error, scale = float((got.double() - want).abs().max()), float(want.abs().max())
    relative = error / scale if scale > 0 else error
    return relative if relative == relative else float("inf")  # NaN equals nothing
