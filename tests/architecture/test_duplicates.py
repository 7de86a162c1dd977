"""How much of the package repeats other parts of it."""

from __future__ import annotations

import pytest

from tests.architecture.source import REPOSITORY, refuse
from tests.duplicates import code_lines, duplicates

MOST = 20  # pairs of places; there were 99 when this was counted first

SIX = "".join(f"x{k} = {k}\n" for k in range(6))


def test_the_package_repeats_itself_little():
    found = duplicates(REPOSITORY / "equigeo")
    refuse([f"{a}:{b} ~ {c}:{d}" for a, b, c, d in found[MOST:]])


REPEATED = {
    "the same": ("y = 0\n" + SIX, SIX, 1),
    "spaced in another way": (SIX, SIX.replace(" = ", "=").replace("\n", "  # why\n\n"), 1),
    "one line short": (SIX, SIX[7:], 0),
    "other names": (SIX, SIX.replace("x", "y"), 0),
    "twice": (SIX + "y = 0\n" + SIX, SIX, 3),
    "one run of seven": ("x = 0\n" + SIX, "x = 0\n" + SIX, 1),
    "docstrings": ('"""' + SIX + '"""', '"""' + SIX + '"""', 0),
    "imports": ("import os\n" * 6, "import os\n" * 6, 0),
}


@pytest.mark.parametrize(("first", "second", "count"), REPEATED.values(), ids=REPEATED)
def test_repetitions_are_counted(tmp_path, first, second, count):
    (tmp_path / "a.py").write_text(first)
    (tmp_path / "b.py").write_text(second)
    assert len(duplicates(tmp_path)) == count


def test_lines_that_say_something_are_left():
    source = '"""Doc."""\nimport os\n\ndef f(\n    x,\n):\n    """Doc."""\n    return {  # why\n}'
    assert code_lines(source) == [(4, "def f ("), (5, "x ,"), (8, "return {")]
