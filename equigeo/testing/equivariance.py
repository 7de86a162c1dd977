"""Assertions of equivariance, and of groups and representations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equigeo.groups import Group, matrix_exp
from equigeo.ops.runtime.tolerance import tolerance
from equigeo.reps import Irreps, Points, Representation, Trivial

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

    A violation raises ``AssertionError`` with the element, its determinant, the error and the
    tolerance. Incomplete declarations, and laws that hold for every function because nothing moves
    or every output is zero, raise ``ValueError``. The group itself is checked once per process, see
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
        rep_in = getattr(fn, "rep_in", None) if rep_in is None else rep_in
        rep_out = getattr(fn, "rep_out", None) if rep_out is None else rep_out
        reps_in, reps_out = _inputs_declared(rep_in, inputs), _outputs_declared(rep_out)
        for rep, x in zip(reps_in, inputs, strict=True):
            _check_input(rep, x)
        group = _common_group([rep for rep in (*reps_in, *reps_out) if rep is not None])
        if group not in _checked:
            assert_group(group)
            _checked.add(group)
        reps_in = tuple(None if rep is None else _restrict(rep, group) for rep in reps_in)
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
        dtypes = [
            x.dtype for x in (*moving, *outputs) if isinstance(x, Tensor) and x.is_floating_point()
        ]
        dtype = max(dtypes, key=lambda kind: torch.finfo(kind).eps, default=torch.float64)
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
    reps = _several(() if rep_out is None else rep_out)
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


STEPS = (0.9, -0.4)
"""How far to go along each generator: far from the identity, yet no strong stretch."""


def assert_group(group: Group) -> None:
    """Check that a group is closed and that its parts are consistent.

    Generators must be independent and closed under brackets, and ``contains`` must accept their
    exponentials, one element per component, and products and inverses of these. The first violation
    raises ``AssertionError``.

    Examples
    --------
    >>> from equigeo.groups import O
    >>> assert_group(O(3))
    """
    if not isinstance(group, Group):
        raise TypeError(f"group must be a Group, got {type(group).__name__}")

    def holds(law: bool | Tensor, text: str) -> None:
        if not bool(law):
            raise AssertionError(f"{group} is no group: {text}")

    basis, parts, size = group.generators(), group.components(), group.size
    for name, matrices in (("generators", basis), ("components", parts)):
        square = matrices.ndim == 3 and matrices.shape[1:] == (size, size)
        holds(square, f"{name} must be (k, {size}, {size}), got {tuple(matrices.shape)}")
    identity = torch.eye(size, dtype=torch.float64)
    holds(len(parts) > 0, "it has no component")
    holds(torch.equal(parts[0], identity), "its first component must be the identity")
    for k, part in enumerate(parts):
        holds(group.contains(part), f"it does not contain its component {k}")
    flat = basis.flatten(1)
    independent = len(basis) == 0 or torch.linalg.matrix_rank(flat) == len(basis)
    holds(independent, "its generators depend on one another")
    for step in STEPS:
        for k, g in enumerate(group.exp(step * basis)):
            text = f"it does not contain the exponential of {step} times generator {k}"
            holds(group.contains(g), text)
    holds(_is_closed(basis), "brackets of its generators are no sums of generators")
    elements = group.testing_elements(torch.Generator().manual_seed(0))
    holds(group.contains(elements).all(), "it does not contain its own testing elements")
    inverse = group.inverse(elements)
    # Entries of elements and inverses bound the rounding of their product.
    bounds = (size * elements.abs().amax((1, 2)) * inverse.abs().amax((1, 2))).clamp(min=1)
    close = tolerance(torch.float64, size)["rtol"]
    errors = (elements @ inverse - identity).abs().amax((1, 2))
    holds(
        (errors <= close * bounds).all(),
        "products of elements with their inverses are not the identity",
    )
    holds(group.contains(inverse).all(), "it does not contain the inverses of its elements")
    products = elements @ elements.roll(1, 0)
    holds(group.contains(products).all(), "it does not contain products of its elements")


def _is_closed(basis: Tensor) -> bool:
    """Return whether brackets of matrices (d, n, n) are in their span."""
    if not len(basis):
        return True
    brackets = basis[:, None] @ basis - basis @ basis[:, None]
    flat, brackets = basis.flatten(1), brackets.flatten(0, 1).flatten(1)
    q, _ = torch.linalg.qr(flat.mT)
    left = brackets - brackets @ q @ q.mT
    bound = tolerance(torch.float64, flat.shape[1])["rtol"] * float(basis.abs().amax()) ** 2
    return bool(left.abs().amax() <= bound)


def assert_representation(rep: Representation) -> None:
    """Check that matrices of a representation multiply as elements of its group do.

    Checks the group, the identity, products, ``act`` against ``matrix``, and exponentials of
    generators against ``algebra``; of an affine representation ``act`` alone. The first violation
    raises ``AssertionError``.

    Examples
    --------
    >>> from equigeo.groups import O
    >>> from equigeo.reps import TensorRep
    >>> assert_representation(TensorRep(O(3), up=2))
    """
    if not isinstance(rep, Representation):
        raise TypeError(f"rep must be a Representation, got {type(rep).__name__}")
    assert_group(rep.group)
    group, generator = rep.group, torch.Generator().manual_seed(0)
    g = group.testing_elements(generator)
    x = torch.randn(len(g), rep.dim, dtype=torch.float64, generator=generator)
    h = g.roll(1, 0)
    once, twice = rep.act(g @ h, x), rep.act(g, rep.act(h, x))
    _assert_close(rep, "products act as one element after the other", once, twice, x)
    same = rep.act(group.identity().expand_as(g), x)
    _assert_close(rep, "the identity changes nothing", same, x, x)
    if not rep.is_linear:
        return
    by_matrix = (rep.matrix(g) @ x[..., None])[..., 0]
    _assert_close(rep, "act is multiplication by matrix", rep.act(g, x), by_matrix, x)
    basis = group.generators()
    for step in STEPS:
        of_group, of_algebra = rep.matrix(group.exp(step * basis)), step * rep.algebra(basis)
        law = "matrices of exponentials are exponentials of algebra"
        _assert_close(rep, law, of_group, matrix_exp(of_algebra), of_algebra)


def _assert_close(rep: Representation, law: str, got: Tensor, want: Tensor, given: Tensor) -> None:
    """Raise ``AssertionError`` if two results differ by more than rounding."""
    if got.shape != want.shape:
        raise AssertionError(
            f"{rep} is no representation: {law} is violated, shapes are {tuple(got.shape)} and "
            f"{tuple(want.shape)}"
        )
    if not want.numel():
        return
    size = max(1.0, float(want.abs().max()), float(given.abs().max()))
    # Two elements of a group that stretches cancel up to the square of their size.
    bound = tolerance(torch.float64, max(64, rep.dim))["rtol"] * size**2
    error = float((got - want).abs().max())
    if not error <= bound:
        raise AssertionError(f"{rep} is no representation: {law} is violated by {error:.2g}")
