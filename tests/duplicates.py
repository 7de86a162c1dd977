"""Places of a package that repeat each other's code.

A line counts when it says something: docstrings, comments, blank lines, imports and lines of
punctuation alone are left out, white space is folded. A run is six or more such lines that stand
one after another, the same to the letter, in two places. What is counted is pairs of places that
share a run, each with the longest run that begins there: three copies make three pairs.

``python -m tests.duplicates [FOLDER]`` lists them.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import defaultdict
from itertools import combinations
from pathlib import Path

RUN = 6
IMPORTS = (ast.Import, ast.ImportFrom)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
Line = tuple[int, str]  # number in the file, text


def code_lines(source: str) -> list[Line]:
    """Lines that count, without comments and with white space folded."""
    text: dict[int, list[str]] = defaultdict(list)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in {tokenize.COMMENT, tokenize.NL} and token.string.strip():
            text[token.start[0]].append(token.string)
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False)
        for left in [node.body[0]] if documented else [node] if isinstance(node, IMPORTS) else []:
            for number in range(left.lineno, left.end_lineno + 1):
                text.pop(number, None)
    lines = ((number, " ".join(words)) for number, words in sorted(text.items()))
    return [line for line in lines if any(character.isalnum() for character in line[1])]


def duplicates(folder: Path) -> list[tuple[Path, int, Path, int]]:
    """Pairs of places that share a run: file and line where it begins, twice."""
    places: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    files = {path: code_lines(path.read_text()) for path in sorted(folder.rglob("*.py"))}
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


if __name__ == "__main__":
    found = duplicates(Path(sys.argv[1] if len(sys.argv) > 1 else "equigeo"))
    rows = [f"{a}:{first} ~ {b}:{second}\n" for a, first, b, second in found]
    sys.stdout.write("".join(rows) + f"{len(found)} pairs of places share {RUN} lines or more\n")
