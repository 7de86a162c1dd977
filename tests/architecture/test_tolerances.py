"""Literal tolerances in tests stand beside their derivation or source, or on a list that shrinks.

A tolerance is a number of its own that is given as ``atol``, ``rtol``, ``abs`` or ``rel``, or that
a comparison bounds something by from above where it is written with an exponent, ``< 1e-6``. Beside
it is a comment in the lines of its statement or directly above them. ``literal_tolerances.txt``
counts those without one, file by file.
"""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from tests.architecture.source import REPOSITORY

KEYWORDS = {"atol", "rtol", "abs", "rel"}
LIST = Path(__file__).parent / "literal_tolerances.txt"


def bare_tolerances(text: str) -> list[int]:
    """Lines of literal tolerances without a comment beside them."""
    commented = {
        token.start[0]
        for token in tokenize.generate_tokens(StringIO(text).readline)
        if token.type == tokenize.COMMENT
        and not token.string.startswith(("# fmt", "# noqa", "# type"))
    }
    lines = text.splitlines()
    found = []
    for statement in statements(ast.parse(text)):
        last = max(getattr(node, "end_lineno", 0) or 0 for node in ast.walk(head(statement)))
        first = statement.lineno
        while first > 1 and lines[first - 2].lstrip().startswith("#"):
            first -= 1  # a comment of several lines
        if commented.isdisjoint(range(first, last + 1)):
            found += [node.lineno for node in tolerances(head(statement), text)]
    return sorted(found)


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.stmt))


def head(statement: ast.stmt) -> ast.AST:
    """A statement without the statements inside it."""
    inside = {"body", "orelse", "finalbody", "handlers"}
    kept = {name: value for name, value in ast.iter_fields(statement) if name not in inside}
    copied = ast.Module(body=[], type_ignores=[])
    nodes = []
    for value in kept.values():
        nodes += [
            x for x in (value if isinstance(value, list) else [value]) if isinstance(x, ast.AST)
        ]
    copied.body = nodes
    return copied


def tolerances(tree: ast.AST, text: str) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in KEYWORDS and is_literal(node.value):
            yield node.value
        if isinstance(node, ast.Compare):
            for operator, right in zip(node.ops, node.comparators, strict=True):
                if isinstance(operator, ast.Lt | ast.LtE) and is_literal(right):
                    written = ast.get_source_segment(text, right) or ""
                    if "e-" in written:
                        yield right


def is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value != 0


def counts() -> dict[str, int]:
    found = {}
    for path in sorted((REPOSITORY / "tests").rglob("*.py")):
        if path != Path(__file__) and (lines := bare_tolerances(path.read_text())):
            found[path.relative_to(REPOSITORY / "tests").as_posix()] = len(lines)
    return found


def listed() -> dict[str, int]:
    rows = (line.split(": ") for line in LIST.read_text().splitlines())
    return {name: int(number) for name, number in rows}


def test_literal_tolerances_without_a_reason_become_fewer():
    now, before = counts(), listed()
    more = {name: n for name, n in now.items() if n > before.get(name, 0)}
    assert more == {}, "say beside each where it comes from, or take testing.tolerance"
    fewer = {name: n for name, n in before.items() if now.get(name, 0) < n}
    assert fewer == {}, f"{LIST.name} may shrink: {dict(Counter(now))}"


def test_what_is_a_tolerance_and_what_is_beside_it():
    text = """
assert_close(a, b, atol=1e-6)
assert_close(a, b, atol=1e-6)  # a sum of twelve
# Rounded to six digits
# in the file.
assert x == approx(
    y, rel=1e-6
)
assert error < 1e-9
assert share < 0.5 and count > 1e-9
assert_close(a, b, atol=0.0, **tolerance(dtype, 3))
def f():
    # Of something else.
    g()
    with h():
        assert error <= 2e-3
"""
    assert bare_tolerances(text) == [2, 9, 16]
