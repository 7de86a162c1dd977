"""What is run on the simulator: every row of the op table, on problems of a size for it."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equigeo.ops.runtime.declare import reads_bfloat16
from tests.ops.op import Op
from tests.ops.op_table import OPS
from tests.ops.problems import PROBLEMS, SMALL, Problem
from tests.ops.test_ops import DTYPES, arguments, derivatives, strided

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

    @property
    def terms(self) -> int:
        return max(self.problem.terms, self.op.terms)


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
    for op in OPS:
        for problem, dtype in itertools.product([SMALL, *map(reduced, PROBLEMS)], DTYPES):
            yield Case(op, problem, dtype)
        for dtype in DTYPES:
            yield Case(op, SMALL, dtype, strided=True)
        for dtype in HALF:
            yield Case(op, SMALL, dtype)
        if reads_bfloat16(op.name):
            yield from (Case(op, reduced(p), torch.bfloat16) for p in PROBLEMS)


def results(case: Case) -> list[Tensor]:
    """Values of a row and two orders of derivatives; of half precision the values alone."""
    op, dtype = case.op, case.dtype
    if dtype in HALF:
        features, rest = arguments(op, case.problem, torch.float32)
        found = [op.call(*(x.to(dtype) for x in features), *op.tables(rest, dtype))]
    else:
        features, rest = arguments(op, case.problem, dtype)
        if case.strided:
            features = [strided(x) for x in features]
            rest = [torch.stack([x, x], dim=1)[:, 0] for x in rest]
        found = derivatives(op.call, features, rest)
    groups = [x if isinstance(x, tuple) else (x,) for x in found]
    return [x.detach() for group in groups for x in group]
