"""Which mistakes are made: every barrier, shared memory, bound and guard of an index in turn."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.mutants.conditions import (
    at_run_time,
    blank,
    closing,
    conditions,
    in_brackets,
    masked,
    parts,
    split,
)

ROOT = Path(__file__).resolve().parents[2]
KERNELS = "csrc/kernels/cuda"
# Of csrc/math what checks indices, and where lanes of a warp share rows; what else is there belongs
# to one thread, and is tested on its own.
MATH = ("csrc/math/copy_rows.h", "csrc/math/edges.h", "csrc/math/mixing_rows.h")

BARRIER = re.compile(
    r"(?<=^)( *)((?:__syncwarp|__syncthreads|team\.sync|__pipeline_commit|__pipeline_wait_prior"
    r"|wait_for_copies)\(\w*\));",
    re.MULTILINE,
)
LAUNCH = re.compile(r"\blaunch_kernel\(")
BYTES = 3  # the place of the size of shared memory among the arguments of a launch
STATIC = re.compile(r"\bstatic_shared<")
MOST_OF_FILE = 160  # mistakes of one file


@dataclass(frozen=True)
class Mutant:
    """A source in which ``after`` replaces ``before``, which begins at ``start``."""

    kind: str  # barrier, size, bound or guard
    file: str
    start: int
    line: int
    before: str
    after: str
    number: int = 1

    @property
    def end(self) -> int:
        return self.start + len(self.before)

    @property
    def constant(self) -> bool:
        return self.kind == "size" and self.before.startswith("[")

    def __str__(self) -> str:
        before, after = (" ".join(x.split()) for x in (self.before, self.after))
        change = f"without {before}" if not after else f"{before} -> {after}"
        return f"{Path(self.file).name}: {change}" + f", {self.number}" * (self.number > 1)


def mutants(root: Path = ROOT) -> list[Mutant]:
    """All mistakes, in the order of files and places."""
    kernels = sorted(p for p in (root / KERNELS).iterdir() if p.is_file())
    found: list[Mutant] = []
    for path in [*kernels, *(root / name for name in MATH)]:
        name, text = str(path.relative_to(root)), path.read_text(encoding="utf-8")
        found += sorted(mutants_of(name, text), key=lambda m: (m.start, -m.end))
    return list(_numbered(found))


def by_number(found: Sequence[Mutant]) -> dict[int, Mutant]:
    """Mistakes by numbers that depend on their own file alone, so that others need no new build."""
    files = list(dict.fromkeys(m.file for m in found))
    places: Counter[str] = Counter()
    numbers = {}
    for mutant in found:
        numbers[MOST_OF_FILE * files.index(mutant.file) + places[mutant.file]] = mutant
        places[mutant.file] += 1
    return numbers


def _numbered(found: list[Mutant]) -> Iterator[Mutant]:
    times: Counter[str] = Counter()
    for mutant in found:
        times[str(mutant)] += 1
        yield replace(mutant, number=times[str(mutant)])


def mutants_of(name: str, text: str) -> Iterator[Mutant]:
    """The mistakes in one file, in any order."""
    code = masked(text)
    constants = list(static_sizes(code))
    changes = [*_sizes(code, text), *_conditions(without(constants, at_run_time(code)), text)]
    if not name.endswith("warp.cuh"):  # Warp::sync stands for all calls of it
        changes += [("barrier", *match.span(2), "") for match in BARRIER.finditer(code)]
    for kind, start, end, after in changes:
        line = text.count("\n", 0, start) + 1
        yield Mutant(kind, name, start, line, text[start:end], after)


def fingerprint(*places: str) -> str:
    """Return a hash of files, and of all files in folders."""
    paths = [p for name in places for p in [ROOT / name, *sorted((ROOT / name).rglob("*.*"))]]
    files = [p for p in paths if p.suffix != ".pyc" and p.is_file()]
    digests = [hashlib.sha256(p.read_bytes()).hexdigest() for p in files]
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def without(extents: list[tuple[int, int]], text: str) -> str:
    """Text of the same length in which these extents are blank."""
    for start, end in extents:
        text = text[:start] + blank(text[start:end]) + text[end:]
    return text


def _sizes(code: str, text: str) -> Iterator[tuple[str, int, int, str]]:
    for start, end in dynamic_sizes(code):
        yield "size", start, end, f"({text[start:end]}) - 4"
    for start, end in static_sizes(code):
        yield "size", start, end, f"[{text[start + 1 : end - 1]} - 1]"


def _conditions(code: str, text: str) -> Iterator[tuple[str, int, int, str]]:
    for condition in conditions(code):
        if condition.place != "loop":
            for part in parts(code, condition):
                yield "guard", part.start, part.end, part.neutral
            continue
        pieces = split(code, condition.start, condition.end, "&&")
        for start, end in pieces:
            after = re.sub(r" (<=?|>=)(?= )", r" \1 1 +", text[start:end], count=1)
            if after != text[start:end]:
                yield "bound", start, end, after
            elif len(pieces) > 1:  # alone it would never end
                yield "guard", start, end, "true"


def dynamic_sizes(code: str) -> Iterator[tuple[int, int]]:
    """Sizes of dynamic shared memory where kernels are launched, in bytes."""
    for match in LAUNCH.finditer(code):
        start, end = arguments(code, match.end() - 1)[BYTES]
        if code[start:end] not in ("0", "int64_t bytes"):
            yield start, end


def arguments(code: str, opening: int) -> list[tuple[int, int]]:
    """The extents of what stands between the brackets of a call."""
    found, depth, first = [], 0, opening + 1
    code = in_brackets(code)
    for position in range(opening + 1, closing(code, opening) + 1):
        depth += (code[position] in "([{") - (code[position] in ")]}")
        if depth < 0 or (depth == 0 and code[position] == ","):
            part = code[first:position]
            found.append((first + len(part) - len(part.lstrip()), position))
            first = position + 1
    return found


def static_sizes(code: str) -> Iterator[tuple[int, int]]:
    """Sizes of arrays in static shared memory, of variables and of the members of their types."""
    found: set[tuple[int, int]] = set()
    for match in STATIC.finditer(code):
        end = code.index(">()", match.end())
        places = [(match.end(), end)]
        for word in set(re.findall(r"\w+", code[match.end() : end])):
            declared = rf"\busing {word} = |\bstruct (?:alignas\(\d+\) )?{word} (?={{)"
            for declaration in re.finditer(declared, code):
                begin = declaration.end()
                last = closing(code, begin) if code[begin] == "{" else code.index(";", begin)
                places.append((begin, last))
        for begin, last in places:
            found |= {m.span() for m in re.compile(r"\[[^\]]+\]").finditer(code, begin, last)}
    yield from sorted(found)
