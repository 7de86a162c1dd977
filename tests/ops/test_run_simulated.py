import re

import torch

from equigeo.ops.runtime.declare import SCHEMAS, reads_bfloat16
from tests.mutants.sources import ROOT
from tests.ops import run_simulated
from tests.ops.op_table import OPS
from tests.ops.problems import PROBLEMS, SMALL
from tests.ops.run_simulated import PLANTED, RUNS, compare, environment, record
from tests.ops.run_threads import run_planted, run_row
from tests.ops.simulated_cases import HALF, SIZES, cases, reduced, results
from tests.ops.test_ops import DTYPES
from tests.ops.trapped_calls import assert_trapped
from tests.wrong_inputs import refused

ROW = "gather_sum | odd sizes"
ROWS = [ROW]


def test_every_row_of_the_op_table_is_simulated_on_every_problem_and_in_every_dtype():
    found = [str(case) for case in cases()]
    names = set(found)
    assert len(names) == len(found)
    for op in OPS:
        problems = op.problems([SMALL, *PROBLEMS])
        assert {f"{op} | {p} | torch.float32" for p in problems} <= names
        assert {f"{op} | {problems[0]} | {dtype}" for dtype in DTYPES} <= names
        if not op.problem:
            assert {f"{op} | small | {dtype} | strided" for dtype in DTYPES} <= names
            assert {f"{op} | small | {dtype}" for dtype in HALF} <= names
        if reads_bfloat16(op.name):
            assert {f"{op} | {p} | torch.bfloat16" for p in problems[1:]} <= names
    assert {case.op.name for case in cases()} == set(SCHEMAS)
    assert [str(case) for case in cases(ROWS)] == [f"{ROW} | torch.float32"]


def test_both_layouts_of_every_op_that_has_two_are_simulated():
    layouts: dict[str, set[bool]] = {}
    for case in cases():
        if re.search(r", bool ir_mul\b", SCHEMAS[case.op.name]):
            layouts.setdefault(case.op.name, set()).add(case.op.constants[-1])
    assert layouts
    assert all(found == {False, True} for found in layouts.values()), layouts


def test_reduced_problems_keep_what_matters_of_their_sizes():
    assert set(SIZES) <= {problem.name for problem in PROBLEMS}
    for problem in PROBLEMS:
        small = reduced(problem)
        assert (small.heads, small.channels) == (problem.heads, problem.channels)
        for size in ("sources", "targets", "edges"):
            assert getattr(small, size) <= getattr(problem, size)
            assert (getattr(small, size) == 0) == (getattr(problem, size) == 0)
    hub = reduced(next(problem for problem in PROBLEMS if problem.name == "one hub"))
    constants = [
        re.search(rf"\b{constant} = (\d+)", (ROOT / "csrc" / name).read_text())
        for constant, name in {
            "kBatch": "kernels/cuda/edge_batch.cuh",
            "kRowsOfRun": "args/symmetric_contraction.h",
            "kLeastOfChunk": "kernels/cuda/carver.h",
        }.items()
    ]
    assert all(found and hub.edges > int(found[1]) for found in constants)


def test_strided_arguments_are_those_of_contiguous_ones():
    plain, strided = cases(["gather_sum | small | torch.float64"])
    assert strided.strided
    for got, want in zip(results(strided), results(plain), strict=True):
        assert torch.equal(got, want)


def test_records_are_compared_in_values_and_bits():
    first = record(ROWS)
    assert compare(first, [record(ROWS), record(ROWS)], ROWS) == sum(map(len, first.values())) == 3
    other = record(ROWS)
    value = other[f"{ROW} | torch.float32"][0]
    value[0, 0] = torch.nextafter(value[0, 0], torch.tensor(9.0))
    assert compare(first, [other], ROWS)
    in_order = "result 0, in another order"
    refused(in_order, compare, first, [first, other], ROWS, error=AssertionError)
    assert run_simulated.check(first, cases(ROWS)) == 1
    first[f"{ROW} | torch.float32"][2][0, 0] += 1e-3
    named = r"gather_sum \| odd sizes \| torch.float32"
    refused(named, compare, first, [record(ROWS)], ROWS, error=AssertionError)
    chosen = cases(ROWS)
    refused(r"torch\.float32", run_simulated.check, first, chosen, error=AssertionError)


def test_sanitizers_are_loaded_before_python(tmp_path):
    variables = environment(tmp_path, "address", "7")
    assert variables["EQUIGEO_SIMULATE_ORDER"] == "7"
    assert "libasan.so" in variables["LD_PRELOAD"]
    assert "LD_PRELOAD" not in environment(tmp_path, "thread", "7")


def test_every_kind_of_checks_has_a_control():
    assert {checks for _, checks, _ in PLANTED.values()} == set(RUNS)
    source = (ROOT / "csrc/tests/planted.cu").read_text()
    mistakes = re.search(r"enum Mistake \{(.*)\}", source)
    assert mistakes
    assert sorted(mistake for mistake, *_ in PLANTED.values()) == [1, 2, 3, 4]
    assert mistakes[1].count(",") == len(PLANTED)


def test_orders_and_checks_are_all_run(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(
        run_simulated,
        "record_elsewhere",
        lambda file, select, variables: ran.append((file.stem, list(select))),
    )
    cpu, simulated = run_simulated.record_all(tmp_path, ROWS, 2)
    files = [cpu, *(file for files in simulated.values() for file in files)]
    assert sorted(stem for stem, _ in ran) == sorted(file.stem for file in files)
    pairs = {f"{checks}-{order}" for checks, orders in RUNS.items() for order in orders}
    assert {stem for stem, _ in ran} == {"cpu", *pairs}
    assert len(RUNS["thread"]) == 3
    assert all(select == ROWS for _, select in ran)


def test_what_is_not_trapped_is_named():
    calls = {"nothing stopped": lambda: None, "another error": fail}
    for message, call in calls.items():
        refused(f"first: {message}", assert_trapped, "first", call, error=AssertionError)


def fail() -> None:
    raise RuntimeError("another error")


def test_ops_run_and_what_is_planted_is_no_error_without_the_sanitizer():
    run_row(next(op for op in OPS if op.name == "gather_sum"), torch.float32)
    run_planted()
