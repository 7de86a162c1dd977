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
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.mutants.cpu_kernels import build, kernel_mutants
from tests.mutants.forks import Answer, Task, run_tests
from tests.mutants.python_sources import changed, compiles, python_mutants, sample
from tests.mutants.reach import Reach
from tests.mutants.sources import ROOT, Mutant, fingerprint

Row = dict[str, Any]
KEY = ("file", "line", "operator", "mutant")  # what tells rows apart
LIMIT, SLOWER = 60.0, 10  # seconds of a test, or times what it takes without a mistake
COLLECTION = 600.0  # seconds before the first test
UNLIMITED = 36000.0
FIRST = 60  # tests that run in one process before all others are collected


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
