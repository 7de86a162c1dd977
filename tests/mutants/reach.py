"""Which tests of the fast tier come by which lines, and how long each takes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from coverage import CoverageData

from tests.mutants.forks import Task, run_tests
from tests.mutants.python_sources import statement_lines
from tests.mutants.sources import ROOT, Mutant, fingerprint

FILES = 12  # test files per process
LIMIT = 1800.0  # seconds of a test without a mistake, or of a collection
SLOW = 1.0  # seconds: slower tests run after all others
OUTSIDE = ("tests/mutants", "tests/build", "tests/architecture")  # run nothing of the package


def chunks(prefixes: Sequence[str]) -> Iterator[list[str]]:
    """Yield files that are collected in one process: tests of a folder, examples of a package."""
    for base, pattern in (("tests", "test_*.py"), ("equigeo", "*.py")):
        folders = sorted(p for p in (ROOT / base).iterdir() if p.is_dir())
        for place in [ROOT / base, *folders]:
            found = place.glob(pattern) if place == ROOT / base else place.rglob(pattern)
            files = sorted(str(path.relative_to(ROOT)) for path in found)
            wanted = [f for f in files if f.startswith(tuple(prefixes) or "")]
            files = [f for f in wanted if not f.startswith(OUTSIDE)]
            step = FILES if base == "tests" else max(1, len(files))
            yield from (files[n : n + step] for n in range(0, len(files), step))


class Reach:
    """What the tests of the fast tier come by, noted in a folder and read from there again."""

    def __init__(self, folder: Path, library: str, mistakes: Sequence[str]) -> None:
        self.folder, self.library, self.mistakes = folder, library, list(mistakes)
        self.tests: dict[str, dict[str, Any]] = {}
        self.users: dict[str, set[str]] = {}  # tests of each fixture
        self.marks: dict[int, set[str]] = {}  # tests by mistakes of kernels
        self.data: list[CoverageData] = []

    def note(self, prefixes: Sequence[str], variables: Mapping[str, str], jobs: int) -> None:
        """Run all tests without a mistake, except where that is noted already."""
        self.folder.mkdir(parents=True, exist_ok=True)
        code = fingerprint("equigeo", "csrc")
        with ThreadPoolExecutor(jobs) as pool:
            tasks = [pool.submit(self._note, f, code, variables) for f in chunks(prefixes)]
            for place in (task.result() for task in tasks):
                self._read(place)

    def _note(self, files: list[str], code: str, variables: Mapping[str, str]) -> Path:
        places = [*{str(Path(f).parent) for f in files}, "tests/conftest.py"]
        key = json.dumps([code, fingerprint(*sorted(places)), files, self.mistakes])
        place = self.folder / f"{files[0].replace('/', '.')}.json"
        if place.exists() and json.loads(place.read_text())["key"] == key:
            return place
        data = place.with_suffix(".coverage")
        data.unlink(missing_ok=True)
        task = Task(files, coverage=str(data), library=self.library, variables=variables)
        answer = run_tests(task, {}, LIMIT, 10 * LIMIT)
        if answer.how not in ("", "failed"):
            raise RuntimeError(f"without a mistake: {answer.failed}: {answer.how}")
        print(f"{files[0]} ...: {len(answer.tests)} tests {answer.failed}", flush=True)  # noqa: T201
        place.write_text(json.dumps({"key": key, "tests": answer.tests, "marks": answer.marks}))
        return place

    def _read(self, place: Path) -> None:
        facts = json.loads(place.read_text())
        self.tests |= facts["tests"]
        for name, test in facts["tests"].items():
            for fixture in test["fixtures"]:
                self.users.setdefault(fixture, set()).add(name)
        for context, numbers in facts["marks"].items():
            for number in numbers:
                self.marks.setdefault(number, set()).update(self._tests([context]))
        if place.with_suffix(".coverage").exists():
            self.data.append(CoverageData(str(place.with_suffix(".coverage"))))
            self.data[-1].read()

    def _tests(self, contexts: Iterator[str] | Sequence[str]) -> set[str]:
        """Return passing tests that contexts stand for: a test, or a fixture of several."""
        found: set[str] = set()
        for context in contexts:
            found |= self.users.get(context, {context})
        return found & self.tests.keys()

    def of(self, mutant: Mutant, number: int = -1) -> tuple[list[str], list[str]]:
        """Return tests that reach a mutant, and those that reach its file, quick ones first."""
        near: set[str] = set(self.marks.get(number, ()))
        around: set[str] = set()
        if mutant.file.endswith(".py"):
            lines = statement_lines(mutant)
            for data in self.data:
                for line, contexts in data.contexts_by_lineno(str(ROOT / mutant.file)).items():
                    (near if line in lines else around).update(contexts)
        near, around = self._tests(list(near)), self._tests(list(around))

        def place(test: str) -> tuple[Any, ...]:
            seconds = self.tests[test]["seconds"]
            file = test.partition("::")[0]
            return seconds > SLOW, not mirrors(mutant.file, test), file, seconds

        return sorted(near, key=place), sorted(around - near, key=place)


def mirrors(file: str, test: str) -> bool:
    """Whether a test is in the folder of tests for a module, or an example of the module."""
    if file.startswith("csrc"):
        return test.startswith("tests/ops/")
    return test.startswith((f"tests{str(Path(file).parent).removeprefix('equigeo')}/", file))
