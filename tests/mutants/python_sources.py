"""Mistakes in Python sources: which there are, and a random sample of them, uniform over lines."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.mutants.sources import ROOT, Mutant

Change = tuple[str, ast.AST, str]  # the operator, the node that is replaced, and by which text

OPERATORS: dict[type, type] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.MatMult: ast.Mult},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift},
}
_PAIRS = (
    *("min max", "amin amax", "argmin argmax", "minimum maximum", "any all", "sin cos"),
    *("floor ceil", "zeros ones", "zeros_like ones_like", "sum mean", "repeat tile", "exp log"),
)
NAMES = {a: b for pair in _PAIRS for a, b in (pair.split(), reversed(pair.split()))}
SILENT = ("log", "logger", "_log", "logging")  # objects whose calls write messages
UNCHANGED = ("Error", "warn", "cast", "TypeVar")  # calls whose arguments are texts or types
STUBS = ("overload", "abstractmethod")
BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.FunctionDef, ast.ClassDef)


def mutants_of(name: str, text: str) -> Iterator[Mutant]:
    """Yield the mistakes of one file, in the order of the syntax tree."""
    tree = ast.parse(text)
    begins = [0]  # of lines, in characters
    for line in text.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    lines = text.splitlines()

    def place(row: int, byte: int) -> int:
        return begins[row - 1] + len(lines[row - 1].encode()[:byte].decode())

    for operator, node, after in _changes(tree):
        start = place(node.lineno, node.col_offset)
        before = text[start : place(node.end_lineno, node.end_col_offset)]
        yield Mutant(operator, name, start, node.lineno, before, after)


def _changes(node: ast.AST) -> Iterator[Change]:
    """Yield the changes of a node and of all nodes below that are neither types nor messages."""
    if make := CHANGES.get(type(node)):
        yield from make(node)
    for child in _children(node):
        yield from _changes(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    if _is_text(node):
        return
    skipped = {"annotation", "returns", "decorator_list", "bases", "targets", "target", "msg"}
    if isinstance(node, ast.ClassDef):
        skipped.add("keywords")
    for field, value in ast.iter_fields(node):
        if field not in skipped:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield child


def _is_text(node: ast.AST) -> bool:
    """Whether a node is a message, or declares something for readers or type checkers alone."""
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        return called.split(".")[0] in SILENT or called.endswith(UNCHANGED)
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.FunctionDef):
        return any(d.endswith(STUBS) for d in map(ast.unparse, node.decorator_list))
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]).startswith("__")
    return isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom))


def _with(node: ast.AST, **fields: Any) -> str:
    """Return the source of a node with other fields, in brackets if it is an expression."""
    text = ast.unparse(type(node)(**{**dict(ast.iter_fields(node)), **fields}))
    return f"({text})" if isinstance(node, ast.expr) else text


def _compare(node: ast.Compare) -> Iterator[Change]:
    first, *rest = node.ops
    yield "comparison", node, _with(node, ops=[OPERATORS[type(first)](), *rest])


def _operator(node: Any) -> Iterator[Change]:
    if type(node.op) in OPERATORS:
        word = "boolean" if isinstance(node, ast.BoolOp) else "arithmetic"
        yield word, node, _with(node, op=OPERATORS[type(node.op)]())
    if isinstance(node, ast.AugAssign):
        yield "statement", node, "pass"


def _unary(node: ast.UnaryOp) -> Iterator[Change]:
    if isinstance(node.op, (ast.Not, ast.USub)):
        yield "not" if isinstance(node.op, ast.Not) else "sign", node, _with(node.operand)


def _test(node: Any) -> Iterator[Change]:
    if "TYPE_CHECKING" not in ast.unparse(node.test):
        yield "not", node.test, f"(not ({ast.unparse(node.test)}))"


def _comprehension(node: ast.comprehension) -> Iterator[Change]:
    for test in node.ifs:
        yield "not", test, f"(not ({ast.unparse(test)}))"


def _constant(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield "constant", node, str(not node.value)
    elif isinstance(node.value, (int, float)):
        yield "constant", node, f"({node.value + 1!r})"
        yield "constant", node, f"({node.value - 1!r})"


def _return(node: ast.Return) -> Iterator[Change]:
    if node.value is not None and ast.unparse(node.value) != "None":
        yield "return value", node, "return None"


def _statement(node: Any) -> Iterator[Change]:
    """Remove what is not a docstring, a message to a log or the definition of a local name."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Name, ast.Tuple)):
        return
    if isinstance(node, ast.Expr) and (
        isinstance(node.value, ast.Constant) or ast.unparse(node).split(".")[0] in SILENT
    ):
        return
    yield "statement", node, "pass"


def _call(node: ast.Call) -> Iterator[Change]:
    args = node.args
    if len(args) > 1 and not any(isinstance(a, ast.Starred) for a in args[:2]):
        yield "swapped arguments", node, _with(node, args=[args[1], args[0], *args[2:]])
    for n, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            rest = node.keywords[:n] + node.keywords[n + 1 :]
            yield "dropped argument", node, _with(node, keywords=rest)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    if name in NAMES:
        text = ast.unparse(node.func)
        other = text[: len(text) - len(name)] + NAMES[name]
        yield "function", node.func, other


def _subscript(node: ast.Subscript) -> Iterator[Change]:
    if isinstance(node.slice, ast.Slice):
        for field in ("lower", "upper", "step"):
            if getattr(node.slice, field) is not None:
                part = {**dict(ast.iter_fields(node.slice)), field: None}
                yield "slice", node, _with(node, slice=ast.Slice(**part))


CHANGES: dict[type, Callable[[Any], Iterator[Change]]] = {
    ast.Compare: _compare,
    **dict.fromkeys((ast.BinOp, ast.BoolOp, ast.AugAssign), _operator),
    ast.UnaryOp: _unary,
    **dict.fromkeys((ast.If, ast.While, ast.IfExp), _test),
    ast.comprehension: _comprehension,
    ast.Constant: _constant,
    ast.Return: _return,
    **dict.fromkeys((ast.Raise, ast.Expr, ast.Assign, ast.Delete, ast.Continue), _statement),
    ast.Call: _call,
    ast.Subscript: _subscript,
}


def changed(mutant: Mutant, text: str) -> str:
    """Return the source with the mistake."""
    return text[: mutant.start] + mutant.after + text[mutant.end :]


def compiles(mutant: Mutant) -> bool:
    """Whether the source with the mistake is valid, and another program."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    try:
        tree = ast.parse(changed(mutant, text))
    except SyntaxError:
        return False
    return ast.dump(tree) != ast.dump(ast.parse(text))


def statement_lines(mutant: Mutant) -> range:
    """Return the lines of the innermost statement around a mistake; of a block, its header."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    found = range(mutant.line, mutant.line + 1)
    for node in ast.walk(ast.parse(text)):  # outer statements come first
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or 0):
            last = node.body[0].lineno - 1 if isinstance(node, BLOCKS) else node.end_lineno
            found = range(node.lineno, max(last or 0, mutant.line) + 1)
    return found


def sample(
    candidates: Sequence[Mutant], seed: int, accept: Callable[[Mutant], bool] = lambda _: True
) -> Iterator[Mutant]:
    """Yield random mistakes, one per line: the first ones of a seed are the same for any count."""
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for mutant in candidates:
        lines.setdefault((mutant.file, mutant.line), []).append(mutant)
    generator = random.Random(seed)
    order = sorted(lines)
    generator.shuffle(order)
    for place in order:
        choices = generator.sample(lines[place], len(lines[place]))
        if found := next(filter(accept, choices), None):
            yield found


def python_mutants(root: Path = ROOT) -> list[Mutant]:
    """Return the mistakes of all modules of the package."""
    files = sorted((root / "equigeo").rglob("*.py"))
    return [
        mutant
        for path in files
        for mutant in mutants_of(str(path.relative_to(root)), path.read_text(encoding="utf-8"))
    ]
