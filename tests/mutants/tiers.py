"""Compare what the two tiers of the test suite notice: ``make mutate``.

Random mistakes are made in the package and in the CPU kernels, one at a time. Tests of the fast
tier that come by a mistake run first; what they miss is left to those of the full tier. The table
is written after each mistake, and ``--resume`` continues it, for the same sources.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

from coverage import CoverageData

from tests.mutants.conditions import at_run_time, masked
from tests.mutants.forks import Answer, Task, run_tests
from tests.mutants.python_sources import (
    changed,
    compiles,
    python_mutants,
    sample,
    statement_lines,
)
from tests.mutants.sources import ROOT, Mutant, fingerprint, mutants_of
from tests.mutants.switches import configure, run, write_sources

Row = dict[str, Any]
KEY = ("file", "line", "operator", "mutant")  # what tells rows apart
LIMIT, SLOWER = 60.0, 10  # seconds of a test, or times what it takes without a mistake
COLLECTION = 600.0  # seconds before the first test
UNLIMITED = 36000.0
FIRST = 60  # tests that run in one process before all others are collected
KERNELS = "csrc/kernels/cpu"
ASSIGNMENT = re.compile(
    r"^ +((?:\w+(?:\.|->))*\w+(?:\[[^\n;=]*\])* (?:=|\+=|-=|\*=|/=) [^;{}]*;)$", re.MULTILINE
)


def kernel_mutants(root: Path = ROOT) -> Iterator[Mutant]:
    """Yield conditions taken out, loops gone on with and assignments removed."""
    for file in included_files(root):
        text = (root / file).read_text(encoding="utf-8")
        yield from mutants_of(file, text)
        for match in ASSIGNMENT.finditer(at_run_time(masked(text))):
            start, end = match.span(1)
            line = text.count("\n", 0, start) + 1
            yield Mutant("statement", file, start, line, text[start:end], "")


def included_files(root: Path = ROOT) -> list[str]:
    """Return the sources of the CPU kernels and all headers of csrc/math that they include."""
    left = [str(path.relative_to(root)) for path in sorted((root / KERNELS).iterdir())]
    found: set[str] = set()
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            names = re.findall(r'#include "(math/[^"]+)"', (root / file).read_text("utf-8"))
            left += [f"csrc/{name}" for name in names]
    return sorted(found - {f"{KERNELS}/isa.cpp"})


def build(folder: Path, chosen: Mapping[int, Mutant], jobs: int) -> dict[int, Mutant]:
    """Build the library in ``folder / "build"``; return the mistakes that the compiler accepts."""
    tree = folder / "tree"
    accepted = dict(sorted(chosen.items(), key=lambda pair: (pair[1].start, -pair[1].end)))
    # One body, called baseline, for the instruction set of this machine.
    flags = f"-march=native -w -include {tree}/csrc/math/host_device.h"
    while True:
        write_sources(tree, accepted, "register/cpu")
        options = ["-DEQUIGEO_ISAS=baseline", f"-DCMAKE_CXX_FLAGS={flags}"]
        configure(tree, folder / "build", *options)
        command = ["cmake", "--build", folder / "build", "--parallel", str(jobs)]
        error = run([*command, "--target", "_kernels_cpu", "--", "-k", "0"])
        if not error:
            return {n: mutant for n, mutant in chosen.items() if n in accepted}
        places = set(re.findall(rf"{tree}/(\S+?):(\d+):\d+: error:", error))
        refused = {n for n, m in accepted.items() if (m.file, str(m.line)) in places}
        if not refused:
            raise RuntimeError(f"the sources with mistakes do not build:\n{error}")
        for number in refused:
            del accepted[number]


FILES = 12  # test files per process
WITHOUT_MISTAKE = 1800.0  # seconds of a test without a mistake, or of a collection
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
        answer = run_tests(task, {}, WITHOUT_MISTAKE, 10 * WITHOUT_MISTAKE)
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


class Trials:
    """Runs tests with a mistake."""

    def __init__(self, reach: Reach, library: str, budgets: Mapping[str, float]) -> None:
        self.reach, self.library, self.budgets = reach, library, budgets
        self.sound: dict[str, bool] = {}
        self.limits = {"": COLLECTION} | {
            name: max(LIMIT, SLOWER * test["seconds"]) for name, test in reach.tests.items()
        }

    def row(self, mutant: Mutant, number: int) -> Row:
        """Return what notices a mistake: ``number`` is -1 in Python."""
        start = time.monotonic()
        near, around = self.reach.of(mutant, number)
        task = self.task(mutant, number)
        fast = self.fast(task, near, around)
        row = row_key(mutant) | {"reached by": len(near), "noticed_by_fast": fast.failed or None}
        row |= {"how": fast.how, "message": fast.message, "noticed_by_full": None}
        if not fast.failed:
            full = self.full(task, mutant)
            row |= {"noticed_by_full": full.failed or "neither", "how": full.how}
            row |= {"message": full.message, "full tests": len(full.tests)}
        return row | {"seconds": round(time.monotonic() - start, 1)}

    def task(self, mutant: Mutant, number: int) -> Task:
        if number >= 0:
            return Task([], library=self.library, number=number, variables=variables(self.library))
        text = (ROOT / mutant.file).read_text(encoding="utf-8")
        return Task([], source=(mutant.file, changed(mutant, text)), variables=variables(""))

    def fast(self, task: Task, near: list[str], around: list[str]) -> Answer:
        """Run what comes by a mistake, then what comes by its file, within the budget."""
        chosen, seconds = [], 0.0
        for name in [*near, *around]:
            seconds += self.reach.tests[name]["seconds"]
            if seconds < self.budgets["fast"] or not chosen:
                chosen.append(name)
        answer = Answer()
        for names in filter(None, (chosen[:FIRST], chosen[FIRST:])):
            files = list(dict.fromkeys(name.partition("::")[0] for name in names))
            answer = self.first_failure(replace(task, files=files, order=names), UNLIMITED)
            if answer.failed:
                break
        return answer

    def full(self, task: Task, mutant: Mutant) -> Answer:
        """Run what only the full tier has, in the package of the mistake."""
        package = "ops" if task.number >= 0 else Path(mutant.file).parts[1]
        files = [f for f in (f"tests/{package}", f"equigeo/{package}") if (ROOT / f).exists()]
        if package.endswith(".py"):
            files += [str(path) for path in Path("tests").glob("test_*.py")]
        task = replace(
            task,
            files=files,
            known=frozenset(self.reach.tests),
            first=Path(mutant.file).stem,
            variables={**task.variables, "EQUIGEO_TESTS": "full"},
        )
        return self.first_failure(task, self.budgets["full"])

    def first_failure(self, task: Task, budget: float) -> Answer:
        """Run tests until one fails that passes without the mistake, in a process of its own."""
        end = time.monotonic() + budget
        while True:
            answer = run_tests(task, self.limits, COLLECTION, end - time.monotonic())
            if not answer.failed or self.is_sound(answer.failed, task):
                return answer
            task = replace(task, without=task.without | {answer.failed})

    def is_sound(self, test: str, task: Task) -> bool:
        """Whether a test passes without a mistake; whole files were collected before."""
        key = f"{test} {task.variables.get('EQUIGEO_TESTS')} {task.number >= 0}"
        if "::" in test and key not in self.sound:
            file = test.partition("::")[0]
            alone = replace(task, files=[file], order=[test], source=None, number=-1)
            self.sound[key] = not run_tests(alone, self.limits, COLLECTION, UNLIMITED).failed
        return self.sound.get(key, True)


def row_key(mutant: Mutant) -> Row:
    before, after = (" ".join(text.split()) for text in (mutant.before, mutant.after))
    change = f"{before} -> {after}" if after else f"without {before}"
    return dict(zip(KEY, (mutant.file, mutant.line, mutant.kind, change), strict=True))


def variables(library: str) -> dict[str, str]:
    """Return the environment of tests: with kernels of a library, or those installed."""
    found = {"HYPOTHESIS_STORAGE_DIRECTORY": str(ROOT / "build/tiers/hypothesis")}
    if library:
        found |= {"EQUIGEO_KERNELS": str(Path(library).parent), "EQUIGEO_REQUIRE_KERNELS": "1"}
    return found


def summary(rows: list[Row]) -> Row:
    """Return how many mistakes the fast tier notices, of those that either tier does."""
    found: Row = {}
    for name, suffix in (("Python", ".py"), ("kernels", ("h", "cpp"))):
        own = [row for row in rows if row["file"].endswith(suffix)]
        fast = sum(row["noticed_by_fast"] is not None for row in own)
        neither = sum(row["noticed_by_full"] == "neither" for row in own)
        found[name] = {"fast": fast, "fast or full": len(own) - neither, "mutants": len(own)}
    return found


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path, help="a file of JSON")
    parser.add_argument("--count", type=int, default=150, help="mistakes in Python sources")
    parser.add_argument("--kernels", type=int, default=60, help="mistakes in CPU kernels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--resume", action="store_true", help="try what the output does not have")
    parser.add_argument(
        "--fast-budget", type=float, default=120, help="seconds of tests per mutant"
    )
    parser.add_argument("--full-budget", type=float, default=300, help="the same of the full tier")
    parser.add_argument("--select", default="", help="mutants of files that begin with this")
    parser.add_argument("--tests", nargs="*", default=[], help="test files that begin with these")
    options = parser.parse_args(arguments)
    if options.output.exists() and not options.resume:
        parser.error(f"{options.output} exists: --resume continues it, another name begins anew")
    return options


def main(arguments: list[str]) -> None:
    options = parsed(arguments)
    os.environ.update({"OMP_NUM_THREADS": "1"})
    folder, library = ROOT / "build/tiers", ""
    sources = fingerprint("equigeo", "csrc")
    rows: list[Row] = []
    if options.output.exists():
        facts = json.loads(options.output.read_text())
        if facts["sources"] != sources:
            raise SystemExit(f"{options.output} is of other sources than those that are here")
        rows = facts["mutants"]
    chosen: list[tuple[Mutant, int]] = []
    if options.count:
        found = [m for m in python_mutants() if m.file.startswith(options.select)]
        chosen += [
            (m, -1) for m in itertools.islice(sample(found, options.seed, compiles), options.count)
        ]
    if options.kernels:
        # More than are wanted, since the compiler refuses some.
        some = itertools.islice(sample([*kernel_mutants()], options.seed), options.kernels * 7 // 6)
        accepted = list(build(folder, dict(enumerate(some)), options.jobs).items())
        chosen += [(m, number) for number, m in accepted[: options.kernels]]
        library = str(folder / "build/_kernels_cpu.so")
    reach = Reach(folder / "reach", library, [str(m) for m, number in chosen if number >= 0])
    reach.note(options.tests, variables(library), options.jobs)
    trials = Trials(reach, library, {"fast": options.fast_budget, "full": options.full_budget})
    done = [{name: row[name] for name in KEY} for row in rows]
    left = [pair for pair in chosen if row_key(pair[0]) not in done]
    with ThreadPoolExecutor(options.jobs) as pool:
        tasks = [pool.submit(trials.row, *pair) for pair in left]
        for task in as_completed(tasks):
            rows.append(row := task.result())
            by = row["noticed_by_fast"] or f"NOT by the fast tier; full: {row['noticed_by_full']}"
            place = f"{row['file']}:{row['line']}: {row['operator']}: {row['mutant']}"
            print(f"{place} [{row['seconds']} s] {by} ({row['how']})", flush=True)  # noqa: T201
            write(options, sources, rows)
    print(json.dumps(summary(rows), indent=1))  # noqa: T201


def write(options: argparse.Namespace, sources: str, rows: list[Row]) -> None:
    from bench.recorder import header, write_json  # not in forks, which import this module

    settings = {"seed": options.seed, "fast budget": options.fast_budget}
    settings |= {"full budget": options.full_budget, "select": options.select}
    facts = header() | {"sources": sources, "settings": settings, "noticed": summary(rows)}
    write_json(options.output, facts | {"mutants": rows})


if __name__ == "__main__":
    main(sys.argv[1:])
