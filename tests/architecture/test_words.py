"""Words: names and texts are in the language of the field, so that no newcomer needs a glossary."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import REPOSITORY, refuse, tracked_files

# What is written, in comments, docstrings, messages and documents, and what is meant by it.
TEXT = {
    r"readable bod(y|ies)": "reference implementation",
    r"(?<!for )(?<!little )\brooms?\b(?! for\b)": "package",
    r"\bhouse('s)?\b": "package, layering rules",
    r"\barrows?\b": "layering rules",
    r"\bsittings?\b": "session or run",
}
# Names, and the usual term.
NAMES = {
    "see_groups": "shared layers",
    "greatest": "masked max",
    "halve": "downsample",
    "fade": "taper",
    "spread_points": "farthest point sampling",
    "meet": "elementwise or outer product",
    "or_one": "what replaces zeros by ones",
    "opens": "first in output",
    "closes": "last in output",
    "Segment1": "segment",
    "Place": "what it is the place of",
    "divide": "split a data set",
    "point_parts": "split a data set",
    "confuse_images": "confusion matrix",
}
PYTHON_NAMES = NAMES | {
    "rooms": "packages",
    "ROOMS": "packages",
    "ARROWS": "layers",
    "sitting": "session",
}
OF_OTHERS = {"np.divide", "torch.divide", "numpy.divide"}
SUSPECT = re.compile(rf"(?i:{'|'.join(TEXT)})|\b({'|'.join(PYTHON_NAMES)})\b")
HISTORY = {Path("CHANGELOG.md"), Path("tests/architecture/test_words.py")}


def wrong_words(path: Path, source: str) -> Iterator[str]:
    """Forbidden words of a file, as ``file:line: what``."""
    if not SUSPECT.search(source):  # most files: nothing to take apart
        return
    if path.suffix == ".py":
        texts, names = python_words(source)
    elif path.suffix in {".h", ".cpp", ".cu", ".cuh"}:
        texts, names = cpp_words(source)
    else:
        texts, names = [*enumerate(source.splitlines(), 1)], []
    for number, text in texts:
        for pattern, meant in TEXT.items():
            if found := re.search(pattern, text, re.IGNORECASE):
                yield f"{path}:{number}: {found[0]!r}: say {meant}"
    terms = PYTHON_NAMES if path.suffix == ".py" else NAMES
    for number, name in names:
        if name in terms:
            yield f"{path}:{number}: {name} is no term of the field: {terms[name]}"


Words = tuple[list[tuple[int, str]], list[tuple[int, str]]]


def python_words(source: str) -> Words:
    """Lines of comments and strings, and the names that code uses."""
    texts, names = [], []
    previous = ["", ""]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in {tokenize.COMMENT, tokenize.STRING, FSTRING_MIDDLE}:
            texts.extend(enumerate(token.string.splitlines(), token.start[0]))
        elif token.type == tokenize.NAME and "".join([*previous, token.string]) not in OF_OTHERS:
            names.append((token.start[0], token.string))
        previous = [previous[1], token.string]
    return texts, names


FSTRING_MIDDLE = getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)  # since Python 3.12


def cpp_words(source: str) -> Words:
    """Lines with comments, and the names of the code before them."""
    lines = [(number, *line.partition("//")) for number, line in enumerate(source.splitlines(), 1)]
    texts = [(number, comment) for number, _, _, comment in lines if comment]
    return texts, [
        (number, name) for number, code, *_ in lines for name in re.findall(r"\w+", code)
    ]


def files() -> list[Path]:
    code = tracked_files(".py", ".h", ".cpp", ".cu", ".cuh", ".md", ".txt", "Makefile", "run")
    return [path for path in code if path not in HISTORY]


def test_the_words_are_those_of_the_field():
    found = [
        problem
        for path in files()
        for problem in wrong_words(path, (REPOSITORY / path).read_text())
    ]
    refuse(found)


def test_files_of_every_kind_are_read():
    names = {str(path) for path in files()}
    assert {"Makefile", "README.md", ".ci/run", "tests/conftest.py", "equigeo/__init__.py"} <= names
    assert any(name.startswith("csrc/") for name in names)


WRONG = {
    "a.py": [
        "def halve(x): ...",
        "from b import greatest",
        "x.opens = 1",
        "# the readable body",
        '"""Of this room."""',
        "raise ValueError('this sitting is over')",
        "f(f'{x} houses', f'in the house {x}')",
        "Place = tuple[int, int]",
    ],
    "a.h": ["struct Segment1 {", "bool opens, closes;", "int a;  // the readable body"],
    "README.md": ["The rooms are", "the arrows between packages", "| Room | what |"],
}
RIGHT = {
    "a.py": [
        "# heads divide channels, lines meet, opens and closes; Householder; warehouse",
        "x = np.divide(a, b)",
        "# room for eight numbers, with too little room",
        "def downsample(halved): ...",
    ],
    "a.h": ["int room = 3;  // room for three, which the caller opens", "Segment segment;"],
    "README.md": ["Divide by the greatest common divisor.", "make room for one"],
}


@pytest.mark.parametrize(("name", "line"), [(n, line) for n in WRONG for line in WRONG[n]])
def test_a_wrong_word_is_reported(name, line):
    assert [*wrong_words(Path(name), line + "\n")]


@pytest.mark.parametrize(("name", "line"), [(n, line) for n in RIGHT for line in RIGHT[n]])
def test_words_of_the_field_are_not_reported(name, line):
    assert not [*wrong_words(Path(name), line + "\n")]
