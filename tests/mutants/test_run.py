from __future__ import annotations

import json

import pytest

from tests.mutants.redundant import reason_of
from tests.mutants.run import NOTICED, Run, by_turns, main, notice_of
from tests.mutants.sources import by_number, mutants

ALL = by_number(mutants())


@pytest.mark.parametrize(
    ("answer", "notice"),
    [
        ({"answer": "AssertionError: row: Tensor-likes\nmore"}, ("value", "row: Tensor-likes")),
        (
            {"answer": "RuntimeError: accesses that no barrier puts in order:\n  x.cu:3 reads\n y"},
            ("races", "x.cu:3 reads"),
        ),
        ({"answer": "RuntimeError: x.cu:3: __trap\nmore"}, ("simulator", "x.cu:3: __trap")),
        (
            {"answer": "AssertionError: a row: nothing stopped the kernel"},
            ("no trap", "a row: nothing stopped the kernel"),
        ),
        (
            {
                "ended": "exit status 1",
                "errors": "ERROR: AddressSanitizer: heap-buffer-overflow on",
            },
            ("address", "heap-buffer-overflow"),
        ),
        (
            {"ended": "exit status 1", "errors": "x.cu:3:1: runtime error: index 3 out of bounds"},
            ("undefined", "index 3 out of bounds"),
        ),
        ({"ended": "does not end", "errors": ""}, ("does not end", "does not end")),
        ({"ended": "exit status -11", "errors": ""}, ("crash", "exit status -11")),
        ({"compiler": "In x:\nx.cu:3: error: no\n"}, ("compiler", "x.cu:3: error: no")),
    ],
)
def test_what_notices_a_mistake_is_told_from_its_words(answer, notice):
    assert notice_of(answer) == notice


def test_the_best_trial_of_each_row_comes_first():
    trials = [
        {"name": "product, odd | large", "seconds": 0.1},
        {"name": "product, odd | small | float", "seconds": 0.2},
        {"name": "product, odd | small | double", "seconds": 0.3},
        {"name": "product, heavy | large", "seconds": 5},
        {"name": "trap | a row", "seconds": 1},
        {"name": "trap | a set", "seconds": 2},
    ]
    assert [trial["name"] for trial in by_turns(trials)] == [
        "product, odd | small | float",
        "trap | a row",
        "trap | a set",
        "product, heavy | large",
        "product, odd | small | double",
        "product, odd | large",
    ]


def run_in(folder):
    return Run(ALL, folder, folder / "table.json", jobs=1, budget=1)


def test_a_table_is_complete_where_each_mistake_is_noticed_or_documented(tmp_path):
    run = run_in(tmp_path)
    undocumented = [n for n, mutant in ALL.items() if not reason_of(mutant)]
    run.rows = {n: dict.fromkeys(NOTICED, "value") for n in undocumented[1:]}
    assert [row["mutant"] for row in run.write()] == [str(ALL[undocumented[0]])]
    assert not json.loads(run.output.read_text())["complete"]
    run.rows[undocumented[0]] = dict.fromkeys(NOTICED, "races")
    assert run.write() == []
    assert json.loads(run.output.read_text())["complete"]


def test_a_run_goes_on_from_what_was_noticed_in_the_same_sources(tmp_path):
    run = run_in(tmp_path)
    run.rows = {n: dict.fromkeys(NOTICED, "value") for n in list(ALL)[:3]}
    run.vain = {list(ALL)[3]: {"thread, forward": 7}}
    run.write()
    other = run_in(tmp_path)
    other.resume()
    assert other.rows == run.rows
    assert other.vain[list(ALL)[3]] == {"thread, forward": 7}
    facts = json.loads(run.output.read_text()) | {"sources": "others"}
    run.output.write_text(json.dumps(facts))
    with pytest.raises(SystemExit, match="of other sources"):
        other.resume()


def test_a_table_that_exists_is_neither_replaced_nor_touched(tmp_path):
    table = tmp_path / "table.json"
    table.write_text("{}")
    with pytest.raises(SystemExit, match="exists: --resume continues it"):
        main([str(tmp_path / "mutants"), str(table)])
    assert [*tmp_path.iterdir()] == [table]
    assert table.read_text() == "{}"
