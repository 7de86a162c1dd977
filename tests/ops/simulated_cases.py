"""What is run on the simulator: every row of the op table, on problems of a size for it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equigeo.ops.runtime.declare import reads_bfloat16
from equigeo.testing import tolerance
from tests.ops.op import Op
from tests.ops.op_table import OPS
from tests.ops.problems import PROBLEMS, SMALL, Problem
from tests.ops.test_ops import DTYPES, arguments, derivatives, double, order_one, strided

HALF = [torch.bfloat16, torch.float16]

# A simulated thread takes as long as a block on a card. What matters of the larger problems stays:
# odd numbers, every channel and head, more than one warp of points (32), batch of edges of a source
# or a target (8), or run of rows (16), and rows that are met by no edge.
SIZES = {
    "one channel, one head": (2, 3, 17),
    "odd sizes": (4, 3, 10),
    "full registers": (2, 3, 4),
    "every block size": (2, 2, 2),
    "isolated rows": (5, 5, 3),
    "one hub": (33, 1, 20),
    "no channels": (2, 2, 3),
    "no heads": (2, 2, 3),
}


@dataclass(frozen=True)
class Case:
    """A row of the op table, a problem and a dtype; ``strided`` arguments are not contiguous."""

    op: Op
    problem: Problem
    dtype: torch.dtype
    strided: bool = False

    def __str__(self) -> str:
        return f"{self.op} | {self.problem} | {self.dtype}" + " | strided" * self.strided

    def share(self, got: Tensor, want: Tensor) -> float:
        """Return the largest error in units of its tolerance, which is that of order one."""
        if not want.numel():
            return 0.0
        scale, terms = order_one(want), max(self.problem.terms, self.op.terms)
        if self.dtype in HALF:  # one rounding at the end, and of float32 before it
            bound = tolerance(torch.float32, terms) | {"rtol": torch.finfo(self.dtype).eps}
        else:
            bound = tolerance(self.dtype, terms)
        allowed = bound["atol"] + bound["rtol"] * want.double().abs() / scale
        error = (got.double() - want.double()).abs() / scale
        return float((error / allowed).nan_to_num(torch.inf).max())


def reduced(problem: Problem) -> Problem:
    """The same problem with fewer rows and edges."""
    if problem.name not in SIZES:
        return problem
    sources, targets, edges = SIZES[problem.name]
    return replace(problem, sources=sources, targets=targets, edges=edges)


def cases(select: Sequence[str] = ()) -> Iterator[Case]:
    """Rows of the op table with every problem and dtype, see :func:`selected`."""
    return selected(_all_cases(), select)


def selected(given: Iterable[Case], select: Sequence[str]) -> Iterator[Case]:
    """Those whose name has one of the parts; what an ampersand joins must all be in the name."""
    for case in given:
        name = str(case)
        if not select or any(all(p in name for p in s.split("&")) for s in select):
            yield case


def _all_cases() -> Iterator[Case]:
    # Both precisions have one source: other sizes are run in one of them.
    for op in OPS:
        small, *others = op.problems([SMALL, *map(reduced, PROBLEMS)])
        yield from (Case(op, small, dtype) for dtype in DTYPES)
        yield from (Case(op, problem, torch.float32) for problem in others)
        if op.problem:
            continue
        for dtype in DTYPES:
            yield Case(op, small, dtype, strided=True)
        for dtype in HALF:
            yield Case(op, small, dtype)
        if reads_bfloat16(op.name):
            yield from (Case(op, problem, torch.bfloat16) for problem in others)


def _drawn(case: Case) -> tuple[list[Tensor], list[Tensor]]:
    """Draw arguments; numbers of half precision are those of float32, rounded."""
    dtype = torch.float32 if case.dtype in HALF else case.dtype
    features, rest = arguments(case.op, case.problem, dtype)
    return [x.to(case.dtype) for x in features], case.op.tables(rest, case.dtype)


def results(case: Case, device: torch.device | str = "cpu") -> list[Tensor]:
    """Values of a row and two orders of derivatives; of half precision the values alone."""
    features, rest = _drawn(case)
    if case.strided:
        features = [strided(x) for x in features]
        rest = [torch.stack([x, x], dim=1)[:, 0] for x in rest]
    features, rest = [x.to(device) for x in features], [x.to(device) for x in rest]
    groups = derivatives(case.op.call, features, rest, orders=0 if case.dtype in HALF else 2)
    return [x.detach().cpu() for group in groups for x in group]


def references(case: Case) -> list[tuple[Tensor, ...]]:
    """Return what the reference computes in float64, by order of derivatives."""
    features, rest = map(double, _drawn(case))
    return derivatives(case.op.reference, features, rest, orders=0 if case.dtype in HALF else 2)
