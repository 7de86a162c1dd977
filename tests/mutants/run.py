"""Makes every mistake in the CUDA sources and sees what notices it: ``make mutate-cuda``.

All mistakes are compiled into one library, which makes the one that is chosen. It is tried on the
cases of ``make test-cuda`` that come by it, until one notices: a value, a simulated error, races,
or the sanitizers of addresses and undefined behavior, in the orders of threads in turn. The best
case of each row of the op table comes first, then the next of each, so that no row waits for all
cases of another. Mistakes that are documented as redundant are not tried. The table is written
after each round; it is complete where each mistake is noticed or documented.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

from bench.recorder import header, write_json
from tests.mutants.redundant import reason_of
from tests.mutants.sources import KERNELS, ROOT, Mutant, by_number, fingerprint, mutants
from tests.mutants.switches import configure, run, write_sources
from tests.mutants.trials import trials
from tests.ops.run_simulated import RUNS, environment, record_elsewhere, say

Row = dict[str, Any]
LIMIT = 20  # seconds of a trial, or SLOWER times what it takes; what takes longer does not end
SLOWER = 4
UNLIMITED = 3600  # of trials without a mistake
# Problems that notice most mistakes come first among those of a row; then the shortest ones.
LIKELY = r"^trap|\| (?:small|odd sizes|one hub) \|"
CHUNK = 25  # trials that are timed in one process
NONE = -1  # the number of no mistake
DECIDING = ("csrc", "tests/ops")  # where the mistakes are, and the cases that may notice them
# What is tried one after another. Races are found in any order; an order alone shows in values.
ROUNDS = [("thread", "forward"), ("address", "forward"), ("address", "reversed"), ("address", "1")]
NOTICES = {
    "races": r"accesses that no barrier puts in order:\s*(.*)",
    "address": r"ERROR: AddressSanitizer: ([\w-]+)",
    "undefined": r"runtime error: (.*)",
    "no trap": r"AssertionError: (.*nothing stopped the kernel)",
    "value": r"AssertionError: (.*)",
    "simulator": r"RuntimeError: (.*)",
    "does not end": r"(does not end)",
    "crash": r"(exit status -\d+)",
}

LIBRARY = "_kernels_simulated.so"
# The others are left out where one is made a constant, for the compiler to see that.
NEVER = """
namespace equigeo::mutants {

inline __attribute__((always_inline)) bool never(int) { return false; }

}  // namespace equigeo::mutants
"""


class Workshop:
    """Sources and builds in a folder, made again only as far as sources have changed."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.build = folder / "tree", folder / "build"

    def make(self, found: Mapping[int, Mutant], jobs: int) -> None:
        """Build the libraries, one for each kind of checks."""
        write_sources(self.tree, found)
        configure(self.tree, self.build, "-DEQUIGEO_SIMULATED=ON")
        targets = [f"simulated_{checks}" for checks in RUNS]
        command = ["cmake", "--build", self.build, "--parallel", str(jobs), "--target", *targets]
        if error := run(command):
            raise RuntimeError(f"the sources with mistakes do not build:\n{error}")

    def folder(self, checks: str) -> Path:
        return self.build / checks

    def make_constant(self, number: int, mutant: Mutant, checks: str) -> tuple[Path, str]:
        """Compile a file again; the folder of the library, and what the compiler refuses."""
        compiled = self.compile_command(mutant, checks)
        target = compiled["output"]
        folder = self.build / f"{checks}-{number}"
        folder.mkdir(exist_ok=True)
        own = str(folder / "mutant.o")
        compile_own = compiled["command"].replace(f"-o {target} ", f"-o {own} ")
        never = folder / "never.h"
        never.write_text(NEVER)
        compile_own += f" -include {never} '-Dchosen(number)=never(number)'"
        error = shell(f"{compile_own} -DEQUIGEO_CONSTANT_MUTANT={number} -w", self.build)
        link = self.link_command(checks).replace(target, own)
        link = link.replace(f"-o {checks}/{LIBRARY}", f"-o {folder / LIBRARY}")
        return folder, error or shell(link, self.build)

    def compile_command(self, mutant: Mutant, checks: str) -> dict[str, str]:
        """How a file is compiled, or one that includes it, and to which object."""
        source = compiled_with(mutant.file)
        commands = json.loads((self.build / "compile_commands.json").read_text())
        places = (f"cuda_{checks}.dir", f"/{source}")
        found: dict[str, str] = next(
            c for c in commands if places[0] in c["command"] and c["file"].endswith(places[1])
        )
        words = found["command"].split()
        return {**found, "output": words[words.index("-o") + 1]}

    def link_command(self, checks: str) -> str:
        command = ["ninja", "-C", str(self.build), "-t", "commands", f"simulated_{checks}"]
        return subprocess.check_output(command, text=True).splitlines()[-1]


def compiled_with(file: str) -> str:
    """Name of the first source that is a file or includes it, by way of others too."""
    sources = sorted((ROOT / KERNELS).glob("*.cu"))
    return next(path.name for path in sources if Path(file).name in included(path, set()))


def included(path: Path, seen: set[str]) -> set[str]:
    """Names of a file of kernels and of all that it includes."""
    if path.name not in seen:
        seen.add(path.name)
        for name in re.findall(r'#include "kernels/cuda/([^"]+)"', path.read_text()):
            included(path.parent / name, seen)
    return seen


def shell(command: str, folder: Path) -> str:
    return run(["bash", "-c", command], folder)


def notice_of(answer: Row) -> tuple[str, str]:
    """What has noticed a mistake, and in which words."""
    if "compiler" in answer:
        return "compiler", next(x for x in answer["compiler"].splitlines() if "error:" in x)
    text = "\n".join(str(answer[key]) for key in ("answer", "errors", "ended") if key in answer)
    for kind, pattern in NOTICES.items():
        if match := re.search(pattern, text):
            return kind, match[1]
    return "error", text.strip().split("\n")[-1]


class Workers:
    """Processes of ``tests.mutants.trials`` with one library in one order."""

    def __init__(self, count: int, record: Path, variables: dict[str, str]) -> None:
        self.idle: Queue[Any] = Queue()
        for _ in range(count):
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.mutants.trials", record],
                env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.idle.put(process)

    def ask(self, **task: Any) -> Row:
        """Return the answer of the next process that is idle."""
        process = self.idle.get()
        try:
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()
            answer: Row = json.loads(process.stdout.readline())
            return answer
        finally:
            self.idle.put(process)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        while not self.idle.empty():
            process = self.idle.get()
            process.stdin.close()
            process.wait()


class Run:
    """All mistakes that are tried, and what has noticed them so far."""

    def __init__(self, chosen: dict[int, Mutant], folder: Path, jobs: int, budget: float) -> None:
        self.all = by_number(mutants())
        self.chosen, self.jobs, self.budget, self.record = chosen, jobs, budget, folder / "cpu.pt"
        self.workshop = Workshop(folder)
        self.rows: dict[int, Row] = {}
        self.trials: list[Row] = []  # in the order in which they are made

    def workers(self, folder: Path, checks: str, order: str, jobs: int) -> Workers:
        variables = environment(folder.parent, checks, order) | {"EQUIGEO_KERNELS": str(folder)}
        return Workers(jobs, self.record, variables)

    def reach(self, names: Sequence[str]) -> None:
        """Time all trials, without a mistake, and note what they come by."""
        chunks = [names[n : n + CHUNK] for n in range(0, len(names), CHUNK)]
        folder = self.workshop.folder(ROUNDS[0][0])
        with (
            self.workers(folder, *ROUNDS[0], self.jobs) as workers,
            ThreadPoolExecutor(self.jobs) as pool,
        ):
            task = {"kind": "reach", "limits": [UNLIMITED]}
            for answer in pool.map(lambda chunk: workers.ask(names=chunk, **task), chunks):
                if "answer" not in answer:
                    raise RuntimeError(f"without a mistake: {answer['ended']} {answer['errors']}")
                self.trials += answer["answer"]

    def of(self, number: int) -> list[Row]:
        """Trials that come by a mistake; of a constant, by anything in its file."""
        mutant = self.all[number]
        same = {n for n, m in self.all.items() if mutant.constant and m.file == mutant.file}
        chosen, seconds = [], 0.0
        reaching = [t for t in self.trials if not {number, *same}.isdisjoint(t["reached"])]
        for trial in by_turns(reaching):
            if seconds < self.budget:
                chosen.append(trial)
                seconds += trial["seconds"]
        return chosen

    def round(self, checks: str, order: str) -> None:
        """Try what nothing has noticed yet."""
        left = [n for n, m in self.chosen.items() if n not in self.rows and not reason_of(m)]
        folder = self.workshop.folder(checks)
        with (
            self.workers(folder, checks, order, self.jobs) as workers,
            ThreadPoolExecutor(self.jobs) as pool,
        ):
            for number, answer in zip(
                left, pool.map(lambda n: self.attempt(n, checks, order, workers), left), strict=True
            ):
                if answer.get("answer") == "":
                    continue
                by, words = notice_of(answer)
                row = {"noticed": by, "build": checks, "order": order}
                self.rows[number] = row | {"trial": answer.get("last", ""), "message": words[:200]}
                mutant = self.chosen[number]
                say(f"{mutant.line}, {mutant} [{checks}, {order}] {by}: {words[:200]}")

    def attempt(self, number: int, checks: str, order: str, workers: Workers) -> Row:
        """Return the answer of the trials of one mistake: ``"answer"`` is empty if none notices."""
        chosen, mutant = self.of(number), self.chosen[number]
        if not chosen:
            return {"answer": ""}
        limits = [LIMIT, *(max(LIMIT, SLOWER * trial["seconds"]) for trial in chosen)]
        task = {"kind": "try", "names": [trial["name"] for trial in chosen], "limits": limits}
        if not mutant.constant:
            return workers.ask(number=number, **task)
        folder, refused = self.workshop.make_constant(number, mutant, checks)
        if refused:
            return {"compiler": refused}
        with self.workers(folder, checks, order, 1) as own:
            return own.ask(number=NONE, **task)

    def table(self) -> list[Row]:
        """A row for each mistake; ``"nothing"`` where it is neither noticed nor redundant."""
        rows = []
        for number, mutant in self.chosen.items():
            reason = reason_of(mutant)
            missed = {"noticed": "redundant" if reason else "nothing", "reason": reason}
            place = {"file": mutant.file, "line": mutant.line, "kind": mutant.kind}
            rows.append(place | {"mutant": str(mutant)} | self.rows.get(number, missed))
        return rows


def by_turns(trials: Sequence[Row]) -> list[Row]:
    """The best trial of each row of the op table, the next of each, and so on."""
    turns: Counter[str] = Counter()
    placed = []
    for trial in sorted(trials, key=lambda t: (not re.search(LIKELY, t["name"]), t["seconds"])):
        row = row_of(trial["name"])
        placed.append((turns[row], trial["seconds"], trial["name"], trial))
        turns[row] += 1
    return [trial for *_, trial in sorted(placed, key=lambda place: place[:3])]


def row_of(name: str) -> str:
    """The row of the op table that a trial is of; a call that ends in a trap is its own."""
    row, _, _ = name.partition(" | ")
    return name if row == "trap" else row


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where copies are built")
    parser.add_argument("output", type=Path, help="a file of JSON, which must not exist")
    parser.add_argument("--select", default="", help="mutants whose kind and name have this")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument(
        "--budget", type=float, default=20, help="seconds of trials of a mistake in each round"
    )
    options = parser.parse_args(arguments)
    if options.output.exists():
        raise SystemExit(f"{options.output} exists: another name begins anew")
    started = time.perf_counter()
    every = by_number(mutants())
    chosen = {n: m for n, m in every.items() if options.select in f"{m.kind} {m}"}
    folder = options.folder.absolute()
    tried = Run(chosen, folder, options.jobs, options.budget)
    folder.mkdir(parents=True, exist_ok=True)
    tried.workshop.make(tried.all, options.jobs)
    record_elsewhere(tried.record, [], {"EQUIGEO_REQUIRE_KERNELS": "1"})
    tried.reach(list(trials({})))
    for checks, order in ROUNDS:
        tried.round(checks, order)
        rows = tried.table()
        missed = [row for row in rows if row["noticed"] == "nothing"]
        kinds = sorted({row["kind"] for row in rows})
        facts = header() | {
            "sources": fingerprint(*DECIDING),
            "complete": len(rows) == len(every) and not missed,
            "seconds": round(time.perf_counter() - started),
            "counts": {k: Counter(r["noticed"] for r in rows if r["kind"] == k) for k in kinds},
        }
        write_json(options.output, facts | {"mutants": rows})
    for row in missed:
        say(f"not noticed: {row['line']}, {row['mutant']}")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main(sys.argv[1:])
