"""Rows of the op table on a device, against the reference implementation on the CPU."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.runtime.declare import reads_bfloat16
from equigeo.testing import tolerance
from tests.ops.op_table import OPS, Op
from tests.ops.problems import PROBLEMS, SMALL, Problem
from tests.ops.simulated_cases import Case, selected
from tests.ops.test_ops import DTYPES, arguments, as_tuple, derivatives, double

Results = list[Tensor]


def op_names(select: Sequence[str] = ()) -> list[str]:
    """Rows of which a case is selected."""
    return list(dict.fromkeys(str(case.op) for case in selected(all_cases(), select)))


def check_ops(
    device: torch.device, select: Sequence[str] = (), names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Values and two orders of gradients of every row, problem and dtype, twice."""
    rows: dict[str, dict[str, Any]] = {}
    failures = []
    for case in selected(all_cases(), select):
        name, op, problem, dtype = str(case), case.op, case.problem, case.dtype
        if names is not None and str(op) not in names:
            continue
        row = rows.setdefault(
            str(op), {"cases": 0, "largest share of the tolerance": 0.0, "where": "", "unequal": []}
        )
        row["cases"] += 1
        try:
            share, same = check_case(op, problem, dtype, device)
        except RuntimeError as error:  # a launch that fails may end all that follow: say where
            failures.append(f"{name}: {error}")
            continue
        if not share <= row["largest share of the tolerance"]:
            row["largest share of the tolerance"], row["where"] = share, name
        if not share <= 1:
            failures.append(f"{name}: {share:.3g} times what is tolerated")
        if not (same or op.blas):
            row["unequal"].append(name)
            failures.append(f"{name}: two runs give different bits")
    return {"rows": rows, "failures": failures}


def all_cases() -> Iterator[Case]:
    """Every row with every problem at its full size, in all dtypes that kernels have."""
    for op in OPS:
        for problem in (SMALL, *PROBLEMS):
            for dtype in (*DTYPES, torch.bfloat16) if reads_bfloat16(op.name) else DTYPES:
                yield Case(op, problem, dtype)


def check_case(
    op: Op, problem: Problem, dtype: torch.dtype, device: torch.device
) -> tuple[float, bool]:
    """Largest error in units of what is tolerated, and whether two runs give the same bits."""
    first, again = (results(op, problem, dtype, device) for _ in range(2))
    features, rest = arguments(op, problem, stored(dtype))
    if dtype == torch.bfloat16:
        features = [x.bfloat16() for x in features]
        groups = [as_tuple(op.reference(*double(features), *double(rest)))]
    else:
        groups = derivatives(op.reference, double(features), double(rest))
    want = flat(groups)
    # Every kernel is an op, so that values are made by kernels alone. Gradients may have sums of
    # PyTorch's own, which on a card have no order.
    pairs = list(zip(first, again, strict=True))[: len(groups[0])]
    same = all(torch.equal(x.nan_to_num(), y.nan_to_num()) for x, y in pairs)
    terms = max(problem.terms, op.terms)
    shares = [share(x, y.detach(), terms) for x, y in zip(first, want, strict=True)]
    return max(shares, default=0.0), same


def results(op: Op, problem: Problem, dtype: torch.dtype, device: torch.device) -> Results:
    """Values and derivatives on a device, brought back; of bfloat16 the values alone."""
    features, rest = arguments(op, problem, stored(dtype))
    rest = [x.to(device) for x in rest]
    if dtype == torch.bfloat16:
        found = list(as_tuple(op.call(*(x.to(device, dtype) for x in features), *rest)))
    else:
        found = flat(derivatives(op.call, [x.to(device) for x in features], rest))
    return [x.detach().cpu() for x in found]


def stored(dtype: torch.dtype) -> torch.dtype:
    """In which problems are made."""
    return torch.float32 if dtype == torch.bfloat16 else dtype


def flat(groups: list[tuple[Tensor, ...]]) -> Results:
    return [x for group in groups for x in group]


def share(got: Tensor, want: Tensor, terms: int) -> float:
    """Error in units of what is tolerated; scaled to order one, as the tolerance supposes."""
    if not want.numel():
        return 0.0
    scale = max(1.0, float(want.abs().max()))
    if got.dtype == torch.bfloat16:  # one rounding at the end, and of float32 before it
        bound = {**tolerance(torch.float32, terms), "rtol": torch.finfo(got.dtype).eps}
    else:
        bound = tolerance(got.dtype, terms)
    allowed = bound["atol"] + bound["rtol"] * want.abs() / scale
    return float(((got.double() - want).abs() / scale / allowed).nan_to_num(torch.inf).max())
