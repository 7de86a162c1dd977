"""How much of the package repeats other parts of it."""

import ast
import re
from collections import defaultdict
from itertools import combinations
from pathlib import Path

from tests.architecture.source import Module, refuse, the_package, write_package

MOST = 20  # pairs of places; there were 99 when this was counted first
RUN = 6
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
Line = tuple[int, str]  # number in the file, text


def code_lines(module: Module) -> list[Line]:
    """Lines that count, without comments and indentation."""
    text = dict(enumerate(module.source.splitlines(), 1))
    for node in ast.walk(module.tree):
        documented = isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False)
        imports = isinstance(node, ast.Import | ast.ImportFrom)
        for left in [node.body[0]] if documented else [node] if imports else []:
            for number in range(left.lineno, left.end_lineno + 1):
                text.pop(number, None)
    lines = ((number, re.sub(r"(^|  )#.*", "", line).strip()) for number, line in text.items())
    return [line for line in lines if any(character.isalnum() for character in line[1])]


def duplicates(modules: dict[str, Module]) -> list[tuple[Path, int, Path, int]]:
    """Pairs of places that share a run: file and line where it begins, twice."""
    places: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    files = {module.path: code_lines(module) for module in modules.values()}
    for path, lines in files.items():
        for k in range(len(lines) - RUN + 1):
            places[tuple(text for _, text in lines[k : k + RUN])].append((path, k))
    windows = {
        (a, k, b, m)
        for same in places.values()
        for (a, k), (b, m) in combinations(same, 2)
        if a != b or m - k >= RUN  # a list of equal lines does not repeat itself
    }
    runs = [(a, k, b, m) for a, k, b, m in windows if (a, k - 1, b, m - 1) not in windows]
    return sorted((a, files[a][k][0], b, files[b][m][0]) for a, k, b, m in runs)


def test_the_package_repeats_itself_little():
    found = duplicates(the_package())
    refuse(f"{a}:{b} ~ {c}:{d}" for a, b, c, d in found[MOST:])


def test_repetitions_are_counted(tmp_path):
    six = "".join(f"x{k} = {k}\n" for k in range(6))
    for k, (first, second, count) in enumerate(
        [
            ("y = 0\n" + six, six.replace("\n", "  # why\n\n"), 1),
            (six, six[7:], 0),
            (six + "y = 0\n" + six, six, 3),
            ("x = 0\n" + six, "x = 0\n" + six, 1),
            (f'"""{six}"""' + "\nimport os" * 6, f'"""{six}"""' + "\nimport os" * 6, 0),
        ]
    ):
        assert len(duplicates(write_package(tmp_path / str(k), a=first, b=second))) == count
