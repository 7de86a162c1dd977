"""Makes every mistake in the CUDA sources and sees what notices it: ``make mutate-cuda``.

All mistakes are compiled into one library, which makes the one that is chosen. It is tried on the
cases of ``make test-cuda`` that come by it, until one notices: a value, a simulated error, races,
or the sanitizers of addresses and undefined behaviour, in the orders of threads in turn. The best
case of each row of the op table comes first, then the next of each, so that no row waits for all
cases of another. The table, with what is documented as redundant, is written to a file of JSON now
and then. A run may be made in stages: ``--resume`` takes from there what was noticed, and what was
tried in vain, with the same sources and cases, and ``--rounds`` makes some of the rounds. The table
is complete where each mistake is noticed or documented.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

from bench.recorder import header, write_json
from tests.mutants.redundant import reason_of
from tests.mutants.sources import Mutant, by_number, fingerprint, mutants
from tests.mutants.trials import trials
from tests.mutants.workshop import Workshop
from tests.ops.run_simulated import environment, record_elsewhere, say

Row = dict[str, Any]
LIMIT = 20  # seconds of a trial, or SLOWER times what it takes; what takes longer does not end
SLOWER = 4
UNLIMITED = 3600  # of one without a mistake, on a machine that is busy
# Problems that notice most mistakes come first among those of a row; then the shortest ones.
LIKELY = r"^trap|\| (?:small|odd sizes|one hub) \|"
EVERY = 30  # seconds in which what is noticed is written
CHUNK = 25  # trials that are timed in one process
NONE = -1  # the number of no mistake
DECIDING = ("csrc", "tests/ops")  # where the mistakes are, and the cases that may notice them
NOTICED = ("noticed", "build", "order", "trial", "message")  # of a row of the table
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


def notice_of(answer: Row) -> tuple[str, str]:
    """What has noticed a mistake, and in which words."""
    if "compiler" in answer:
        return "compiler", next(x for x in answer["compiler"].splitlines() if "error:" in x)
    text = "\n".join(str(answer[key]) for key in ("answer", "errors", "ended") if key in answer)
    for kind, pattern in NOTICES.items():
        if match := re.search(pattern, text):
            return kind, match[1]
    return "error", text.strip().split("\n")[-1]


class Worker:
    """A process of ``tests.mutants.trials``."""

    def __init__(self, record: Path, variables: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.trials", record],
            env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **task: Any) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


class Workers:
    """As many as there are jobs, with one library in one order."""

    def __init__(self, count: int, record: Path, variables: dict[str, str]) -> None:
        self.all = [Worker(record, variables) for _ in range(count)]
        self.idle: Queue[Worker] = Queue()
        for worker in self.all:
            self.idle.put(worker)

    def ask(self, **task: Any) -> dict[str, Any]:
        worker = self.idle.get()
        try:
            return worker.ask(**task)
        finally:
            self.idle.put(worker)


@contextmanager
def workers(count: int, record: Path, variables: dict[str, str]) -> Iterator[Workers]:
    found = Workers(count, record, variables)
    try:
        yield found
    finally:
        for worker in found.all:
            worker.close()


class Run:
    """All mistakes that are tried, and what has noticed them so far."""

    def __init__(
        self, chosen: dict[int, Mutant], folder: Path, output: Path, jobs: int, budget: float
    ) -> None:
        self.all = by_number(mutants())
        self.chosen, self.jobs, self.budget, self.record = chosen, jobs, budget, folder / "cpu.pt"
        self.folder, self.output, self.started = folder, output, time.perf_counter()
        self.written = self.started
        self.workshop = Workshop(folder)
        self.rows: dict[int, Row] = {}
        self.untried: set[int] = set()  # what is documented, unless that is to be tried too
        self.vain: dict[int, dict[str, int]] = {}  # by round, how many trials noticed nothing
        self.seconds = 0.0  # of the runs before this one
        self.trials: list[Row] = []  # in the order in which they are made

    def variables(self, folder: Path, checks: str, order: str) -> dict[str, str]:
        return environment(folder.parent, checks, order) | {"EQUIGEO_KERNELS": str(folder)}

    def workers(self, checks: str, order: str) -> Any:
        variables = self.variables(self.workshop.folder(checks), checks, order)
        return workers(self.jobs, self.record, variables)

    def reach(self, names: Sequence[str]) -> None:
        """Time all trials, without a mistake, and note what they come by."""
        notes = self.folder / f"reached-{fingerprint(*DECIDING)}.json"
        known = json.loads(notes.read_text()) if notes.exists() else {}
        self.trials = [known[name] for name in names if name in known]
        names = [name for name in names if name not in known]
        chunks = [names[n : n + CHUNK] for n in range(0, len(names), CHUNK)]
        with self.workers(*ROUNDS[0]) as all_workers, ThreadPoolExecutor(self.jobs) as pool:
            asked = [
                pool.submit(all_workers.ask, kind="reach", names=chunk, limits=[UNLIMITED])
                for chunk in chunks
            ]
            for answer in (task.result() for task in asked):
                if "answer" not in answer:
                    raise RuntimeError(f"without a mistake: {answer['ended']} {answer['errors']}")
                self.trials += answer["answer"]
                known |= {row["name"]: row for row in answer["answer"]}
                notes.write_text(json.dumps(known))

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
        left = [n for n in self.chosen if n not in self.rows and n not in self.untried]
        with ExitStack() as stack:
            all_workers = None
            if any(not self.chosen[n].constant for n in left):
                all_workers = stack.enter_context(self.workers(checks, order))
            pool = stack.enter_context(ThreadPoolExecutor(self.jobs))
            for _ in pool.map(lambda n: self.attempt(n, checks, order, all_workers), left):
                if time.perf_counter() > self.written + EVERY:
                    self.write()

    def attempt(self, number: int, checks: str, order: str, all_workers: Workers | None) -> None:
        """Try one mistake, and note what notices it."""
        chosen, mutant, start = self.of(number), self.chosen[number], time.perf_counter()
        if not chosen or self.vain.get(number, {}).get(f"{checks}, {order}") == len(chosen):
            return None
        limits = [LIMIT, *(max(LIMIT, SLOWER * trial["seconds"]) for trial in chosen)]
        task = {"kind": "try", "names": [trial["name"] for trial in chosen], "limits": limits}
        if mutant.constant:
            folder, refused = self.workshop.make_constant(number, mutant, checks)
            if refused:
                return self.note(number, checks, order, {"compiler": refused})
            variables = self.variables(folder, checks, order)
            with workers(1, self.record, variables) as own:
                answer = own.ask(number=NONE, **task)
        else:
            assert all_workers
            answer = all_workers.ask(number=number, **task)
        if answer.get("answer") == "":
            self.vain.setdefault(number, {})[f"{checks}, {order}"] = len(chosen)
        else:
            self.note(number, checks, order, answer)
        row = self.rows.get(number, {"noticed": "nothing", "message": ""})
        seconds = f"{checks}, {order}, {time.perf_counter() - start:.1f} s"
        say(f"{mutant.line}, {mutant} [{seconds}] {row['noticed']}: {row['message']}")
        return None

    def note(self, number: int, checks: str, order: str, answer: Row) -> None:
        by, words = notice_of(answer)
        row = {"noticed": by, "build": checks, "order": order}
        self.rows[number] = row | {"trial": answer.get("last", ""), "message": words[:200]}

    def resume(self) -> None:
        """Take what an earlier run of the same sources and cases has noticed, and tried in vain."""
        facts = json.loads(self.output.read_text())
        if facts["sources"] != fingerprint(*DECIDING):
            raise SystemExit(f"{self.output} is of other sources or cases than those that are here")
        self.seconds = facts["seconds"]
        numbers = {str(m): n for n, m in self.all.items()}
        for row in facts["mutants"]:
            if row["noticed"] not in ("nothing", "redundant"):
                self.rows[numbers[row["mutant"]]] = {k: row[k] for k in NOTICED}
            else:
                self.vain[numbers[row["mutant"]]] = row["in vain"]

    def table(self) -> list[Row]:
        """A row for each mistake; ``"nothing"`` where it is neither noticed nor redundant."""
        rows = []
        for number, mutant in self.all.items():
            if number in self.chosen or number in self.rows:
                place = {"file": mutant.file, "line": mutant.line, "kind": mutant.kind}
                rows.append(place | {"mutant": str(mutant)} | self.finding(number))
        return rows

    def finding(self, number: int) -> Row:
        reason = reason_of(self.all[number])
        missed: Row = {"noticed": "redundant" if reason else "nothing", "reason": reason}
        return self.rows.get(number) or missed | {"in vain": self.vain.get(number, {})}

    def write(self) -> list[Row]:
        """Write the table; what is missed."""
        rows = self.table()
        missed = [row for row in rows if row["noticed"] == "nothing"]
        kinds = sorted({row["kind"] for row in rows})
        counts = {k: Counter(r["noticed"] for r in rows if r["kind"] == k) for k in kinds}
        facts = header() | {
            "sources": fingerprint(*DECIDING),
            "complete": len(rows) == len(self.all) and not missed,
        }
        facts["seconds"] = round(self.seconds + time.perf_counter() - self.started)
        write_json(self.output, facts | {"counts": counts, "mutants": rows})
        self.written = time.perf_counter()
        return missed


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where copies are built")
    parser.add_argument("output", type=Path, help="a file of JSON")
    parser.add_argument("--select", action="append", help="mutants whose kind and name have this")
    parser.add_argument("--cases", action="append", help="trials whose name has all of a&b")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument(
        "--budget", type=float, default=60, help="seconds of trials of a mistake in each round"
    )
    parser.add_argument("--resume", action="store_true", help="try what the output has not noticed")
    parser.add_argument(
        "--rounds", type=int, nargs="+", default=range(len(ROUNDS)), help="0 to 3, in this order"
    )
    parser.add_argument("--undocumented", action="store_true", help="try what is not documented")
    options = parser.parse_args(arguments)
    if options.output.exists() and not options.resume:
        raise SystemExit(
            f"{options.output} exists: --resume continues it, another name begins anew"
        )
    chosen = {
        n: m
        for n, m in by_number(mutants()).items()
        if any(part in f"{m.kind} {m}" for part in options.select or [""])
    }
    folder, output = options.folder.absolute(), options.output
    run = Run(chosen, folder, output, options.jobs, options.budget)
    if options.undocumented:
        run.untried = {n for n, m in chosen.items() if reason_of(m)}
    if options.resume:
        run.resume()
    folder.mkdir(parents=True, exist_ok=True)
    run.workshop.make(run.all, options.jobs)
    record_elsewhere(run.record, [], {"EQUIGEO_REQUIRE_KERNELS": "1"})
    run.reach([name for name in trials({}) if is_selected(name, options.cases)])
    missed: list[Row] = []
    for checks, order in (ROUNDS[n] for n in options.rounds):
        run.round(checks, order)
        missed = run.write()
    for row in missed:
        say(f"not noticed: {row['line']}, {row['mutant']}, by {row['in vain']}")
    sys.exit(bool(missed))


def is_selected(name: str, parts: Sequence[str] | None) -> bool:
    """Whether a trial is among those asked for, as ``tests.ops.run_simulated`` selects cases."""
    return not parts or any(all(p in name for p in part.split("&")) for part in parts)


if __name__ == "__main__":
    main(sys.argv[1:])
