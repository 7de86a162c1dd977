"""Phrases that the documents and the code no longer use, and the plain ones instead."""

import re

from tests.architecture.source import REPOSITORY, refuse, tracked_files

# A phrase is added when its last use is gone.
PHRASES = {
    r"readable bod(y|ies)": "reference implementation",
    r"where that is not so": "say the condition",
    r"takes 0\.\d+ of the time": "1.8x faster",
    r"\d ?(µs|ms) an? (edge|face|point|row)\b": "per",
    r"nobody can say": "name the reason",
    r"for want of": "without",
    r"a matter of taste": "independent of the choice",
    r"\btimes as (fast|long)\b": "1.8x faster",
    r"\bas (it|they) stands?\b": "name the state",
    r"\bwhat moves\b": "name the subject",
    r"\bsays? that\b": "state, return, raise",
    r"\btells? (how|whether|what|that)\b": "return, report, explain",
    r'"""(Say|Give|Tell)s?\b': "Return, Print, Yield",
    r"\bbelieved?\b": "name the check",
    r"\bin silence\b": "without a warning",
    r"\bput aside\b": "held out",
    r"\bknows? (no|nothing)\b": "has no, does not depend on",
    r"\b(numbers|weights|shapes|test|train) an? (row|edge|face|class)\b": "per",
    r"\bone row (of \w+ )?an? (face|edge|point)\b": "per",
}
ANY = re.compile("|".join(f"(?:{pattern})" for pattern in PHRASES), re.IGNORECASE)
KINDS = (".py", ".h", ".cpp", ".cu", ".cuh", ".md", ".txt", "Makefile", "run")
HISTORY = {"CHANGELOG.md", "tests/architecture/test_words.py"}


def unwanted(text: str) -> list[tuple[int, str]]:
    """Lines and phrases."""
    return [(text.count("\n", 0, m.start()) + 1, m[0]) for m in ANY.finditer(text)]


def test_texts_use_plain_phrases():
    files = {str(path): path for path in tracked_files(*KINDS)}
    assert {"Makefile", "README.md", ".ci/run", "tests/conftest.py"} <= files.keys()
    refuse(
        f"{name}:{line}: {phrase!r}"
        for name in files.keys() - HISTORY
        for line, phrase in unwanted((REPOSITORY / name).read_text())
    )
    assert unwanted("a\nIt takes 0.55 of the time.") == [(2, "takes 0.55 of the time")]
