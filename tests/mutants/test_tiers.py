import pytest

from tests.mutants.forks import CONTEXT, PRELOADED, Task, run_tests
from tests.mutants.python_sources import changed, compiles, mutants_of, statement_lines
from tests.mutants.sources import ROOT

CODE = '''
"""A text."""
import torch
LIMIT: int = 3
__all__ = ["f"]
def f(x: Array[2], y=1.5):
    """Return 2 + 2."""
    if not x < y and x:
        raise ValueError(f"{x + 1} is less than {2}")
    self.y[1:] = torch.zeros(x, y, dim=y)
    log.warning(3 + 4)
    return x
'''


def test_every_kind_of_mistake_is_made_outside_of_texts_and_types():
    assert [f"{m.line} {m.kind}: {m.before} -> {m.after}" for m in mutants_of("x.py", CODE)] == [
        "4 constant: 3 -> (4)",
        "4 constant: 3 -> (2)",
        "6 constant: 1.5 -> (2.5)",
        "6 constant: 1.5 -> (0.5)",
        "8 not: not x < y and x -> (not (not x < y and x))",
        "8 boolean: not x < y and x -> (not x < y or x)",
        "8 not: not x < y -> (x < y)",
        "8 comparison: x < y -> (x <= y)",
        '9 statement: raise ValueError(f"{x + 1} is less than {2}") -> pass',
        "10 statement: self.y[1:] = torch.zeros(x, y, dim=y) -> pass",
        "10 swapped arguments: torch.zeros(x, y, dim=y) -> (torch.zeros(y, x, dim=y))",
        "10 dropped argument: torch.zeros(x, y, dim=y) -> (torch.zeros(x, y))",
        "10 function: torch.zeros -> torch.ones",
        "12 return value: return x -> return None",
    ]


@pytest.mark.parametrize(
    ("after", "failed"),
    [("return full", True), ("return full if len([FULL]) > 1 or FULL else fast", False)],
)
def test_planted_mistakes_are_noticed_and_equivalent_sources_pass(tmp_path, after, failed):
    test = tmp_path / "test_planted.py"
    test.write_text(
        "from tests.tier import tier\n"
        "def test_first(): pass\n"
        "def test_second(): assert tier([1], [2]) == [1]\n"
    )
    file = "tests/tier.py"
    text = (ROOT / file).read_text()
    mutant = next(m for m in mutants_of(file, text) if m.kind == "return value")
    assert mutant.line in statement_lines(mutant)
    assert compiles(mutant)
    text = text.replace(mutant.before, after)
    assert text != changed(mutant, text)
    CONTEXT.set_forkserver_preload([])  # none of the libraries is used here
    task = Task([str(test)], source=(file, text), variables={"EQUIGEO_TESTS": ""})
    answer = run_tests(task, {}, 60, 600)
    CONTEXT.set_forkserver_preload(list(PRELOADED))
    assert answer.failed.endswith("test_planted.py::test_second" if failed else "")
    assert bool(answer.failed) == failed
    assert [name.partition("::")[2] for name in answer.tests][:1] == ["test_first"]
