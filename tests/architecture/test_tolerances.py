"""Literal tolerances in tests stand beside their derivation or source.

A tolerance is a number of its own that is given as ``atol``, ``rtol``, ``abs`` or ``rel``, or that
a comparison bounds something by from above where it is written with an exponent, ``< 1e-6``. Beside
it is a comment in the lines of its statement or directly above them.
"""

import ast
import re
import tokenize
from collections.abc import Iterator
from io import StringIO

from tests.architecture.source import REPOSITORY, read_modules

KEYWORDS = {"atol", "rtol", "abs", "rel"}
WORTH_READING = re.compile(r"\de-\d|\b(?:atol|rtol|abs|rel)=")


def bare_tolerances(text: str, tree: ast.Module) -> list[int]:
    """Lines of literal tolerances without a comment in or above the head of their statement."""
    lines = text.splitlines()
    tokens = tokenize.generate_tokens(StringIO(text).readline)
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    tools = ("# fmt", "# noqa", "# type")
    commented = {c.start[0] for c in comments if not c.string.startswith(tools)}
    worth_reading = [n for n, line in enumerate(lines, 1) if WORTH_READING.search(line)]
    owners: dict[ast.AST, ast.stmt] = {}
    for statement in (node for node in ast.walk(tree) if isinstance(node, ast.stmt)):
        if any(statement.lineno <= n <= (statement.end_lineno or 0) for n in worth_reading):
            owners |= dict.fromkeys(ast.walk(statement), statement)  # inner ones come later
    found = []
    for node, statement in owners.items():
        for line in tolerances(node, lines):
            first = statement.lineno
            body = getattr(statement, "body", None)
            last = body[0].lineno - 1 if body else statement.end_lineno or first
            while first > 1 and lines[first - 2].lstrip().startswith("#"):
                first -= 1  # a comment of several lines
            if commented.isdisjoint(range(first, last + 1)):
                found.append(line)
    return sorted(found)


def tolerances(node: ast.AST, lines: list[str]) -> Iterator[int]:
    """Lines of the literal ones that a node has."""
    if isinstance(node, ast.keyword) and node.arg in KEYWORDS and is_literal(node.value):
        yield node.value.lineno
    if isinstance(node, ast.Compare):
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.Lt | ast.LtE) and is_literal(right):
                written = lines[right.lineno - 1][right.col_offset : right.end_col_offset]
                if "e-" in written:
                    yield right.lineno


def is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value != 0


def test_literal_tolerances_have_a_reason():
    found = {}
    for module in read_modules(REPOSITORY, "tests").values():
        if module.name == __name__ or not WORTH_READING.search(module.source):
            continue
        if lines := bare_tolerances(module.source, module.tree):
            found[str(module.path)] = lines
    assert found == {}, "say beside each where it comes from, or take testing.tolerance"


def test_tolerances_without_a_reason_are_found():
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
    assert bare_tolerances(text, ast.parse(text)) == [2, 9, 16]
