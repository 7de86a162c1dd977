"""Where C++ decides at run time: the conditions of branches and loops, and the parts of each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

COMMENT = r"//[^\n]*|/\*.*?\*/"
STRING = r'"(?:\\.|[^"\\\n])*"'
DIRECTIVE = r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"
OPERATOR = re.compile(r" (?:<|>|<=|>=|==|!=|&&|\|\|)(?=\s)")
# Calls and flags that say whether an index is inside.
QUESTION = re.compile(r"\.has\(|\bis_\w+\((?=\w)|\bactive(?= \?|\) \{)")
SKIP = re.compile(r"\s*\{?\s*(?:continue|break|return|__trap)\b")
OPEN, CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class Condition:
    """A condition at [start, end); ``place`` says what decides by it."""

    start: int
    end: int
    place: str  # if, skip (what follows), loop, demand (or a trap), ternary or value


@dataclass(frozen=True)
class Part:
    """A part at [start, end) of a condition, and the value that takes it out."""

    start: int
    end: int
    neutral: str
    condition: Condition


def masked(text: str) -> str:
    """Text of the same length without comments, strings and lines of the preprocessor."""
    pattern = re.compile(f"{COMMENT}|{STRING}|{DIRECTIVE}", re.MULTILINE | re.DOTALL)
    return pattern.sub(lambda match: blank(match[0]), text)


def blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def at_run_time(text: str) -> str:
    """Masked text, without what the compiler evaluates and what the host runs as well."""
    words = re.compile(
        r"\bif constexpr \(|\bconstexpr\b|\bstatic_assert\b"
        r"|\bconst char\* \w+\(|\blaunch_threads\("
    )
    position = 0
    while match := words.search(text, position):
        end = statement_end(text, match.start(), whole=match[0] != "if constexpr (")
        text = text[: match.start()] + blank(text[match.start() : end]) + text[end:]
        position = end
    return in_brackets(text)


def in_brackets(text: str) -> str:
    """Text of the same length in which arguments of templates are in brackets like others."""
    template = re.compile(r"(?<=\w)<([^<>;{}]*)>")
    while (changed := template.sub(r"(\1)", text)) != text:
        text = changed
    return text


def statement_end(text: str, start: int, *, whole: bool) -> int:
    """The end of a declaration, its body included; or else of the first brackets."""
    position = start
    while text[position] not in ";{":
        if text[position] == "(":
            position = closing(text, position)
            if not whole:
                return position + 1
        position += 1
    return closing(text, position) + 1 if text[position] == "{" else position + 1


def closing(text: str, start: int) -> int:
    """The bracket that closes the one at ``start``."""
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] in OPEN) - (text[position] in CLOSE)
        if depth == 0:
            return position
    raise ValueError(f"the bracket at {start} is not closed")


def conditions(text: str) -> list[Condition]:
    """All conditions of text without comments, in their order, none inside another."""
    loops = list(loop_conditions(text))
    found: set[Condition] = set()
    for match in (*OPERATOR.finditer(text), *QUESTION.finditer(text)):
        start, end = extent(text, match.start())
        if not re.match(r"(?:template|static|bool|auto|const) ", text[start:end]):
            found.add(Condition(start, end, place_of(text, start, end, loops)))
    outermost: list[Condition] = []
    for condition in sorted(found, key=lambda c: (c.start, -c.end)):
        if not outermost or condition.start >= outermost[-1].end:
            outermost.append(condition)
    return outermost


def loop_conditions(text: str) -> Iterator[tuple[int, int]]:
    """The extents of what stands between the semicolons of loops."""
    for match in re.finditer(r"\bfor \(", text):
        end = closing(text, match.end() - 1)
        semicolons = [n for n in range(match.end(), end) if text[n] == ";"]
        if len(semicolons) == 2:
            yield semicolons[0] + 1, semicolons[1]


def place_of(text: str, start: int, end: int, loops: list[tuple[int, int]]) -> str:
    before = text[:start].rstrip()
    if any(first <= start and end <= last for first, last in loops):
        return "loop"
    if re.search(r"\} while \($", before):
        return "loop"
    if re.search(r"\b(?:if|while) \($", before):
        return "skip" if SKIP.match(text, end + 1) else "if"
    if before.endswith("require("):
        return "demand"
    return "ternary" if re.match(r"\s*\?", text[end : end + 40]) else "value"


def extent(text: str, inside: int) -> tuple[int, int]:
    """The expression of the type bool around a place, as far as the brackets around it."""
    start, depth = inside, 0
    while start > 0:
        char, before = text[start - 1], text[start - 2 : start - 1]
        assigns = char == "=" and before not in "=<>!" and text[start] != "="
        ends = char in ";,?{}" or assigns or (char == ":" and before == " ")
        if depth == 0 and (ends or re.search(r"\breturn $", text[max(0, start - 8) : start])):
            break
        depth += (char in CLOSE) - (char in OPEN)
        if depth < 0:
            break
        start -= 1
    end, depth = inside, 0
    while end < len(text):
        char = text[end]
        if depth == 0 and (char in ";,?{}" or text[end : end + 3] == " : "):
            break
        depth += (char in OPEN) - (char in CLOSE)
        if depth < 0:
            break
        end += 1
    return trimmed(text, start, end)


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def parts(text: str, condition: Condition) -> list[Part]:
    """What can be taken out of a condition; all of it where it is in one piece."""
    found = [Part(*place, condition) for place in terms(text, condition.start, condition.end)]
    if found and condition.place == "demand":
        return [Part(condition.start, condition.end, "true", condition), *found]
    if found:
        return found
    values = ("false", "true") if condition.place == "skip" else ("true",)
    return [Part(condition.start, condition.end, neutral, condition) for neutral in values]


def terms(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Operands of the operators `||` and `&&`, at every depth, and what leaves the others alone."""
    for operator, neutral in (("||", "false"), ("&&", "true")):
        pieces = split(text, start, end, operator)
        if len(pieces) > 1:
            for piece in pieces:
                yield (*piece, neutral)
                yield from terms(text, *piece)
            return
    inner = text[start:end].lstrip("!")
    if inner.startswith("(") and closing(text, end - len(inner)) == end - 1:
        yield from terms(text, *trimmed(text, end - len(inner) + 1, end - 1))


def split(text: str, start: int, end: int, operator: str) -> list[tuple[int, int]]:
    """What an operator joins, outside of brackets."""
    pieces, depth, first = [], 0, start
    for position in range(start, end):
        depth += (text[position] in OPEN) - (text[position] in CLOSE)
        if depth == 0 and text.startswith(operator, position):
            pieces.append(trimmed(text, first, position))
            first = position + len(operator)
    return [*pieces, trimmed(text, first, end)]
