"""Runs the cases of fuzzing targets in processes of their own and reports what was found.

``python -m tests.fuzz --minutes 10 --seed 0 [--target NAME]`` goes through all targets, or those
that are named, with the seed and those after it until the time is up. Its exit status is 1 if
anything was found. ``python -m tests.fuzz --target NAME --seed 3 --case 17`` repeats one case.
``--output bench/results/fuzz.json`` keeps what a run did: cases by their answers, and findings.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from pathlib import Path
from time import monotonic
from typing import IO, Any

from bench.recorder import circumstances, write_json
from tests.fuzz.run_worker import ANSWERED, REFUSED

FOLDER = Path(__file__).parent
WAITS = 6  # multiple of its limit that a case may take on a busy machine
STARTUP = 120.0  # seconds until there is a case, imports included
# What is a std::bad_alloc otherwise, and an error in Python, ends a process under the sanitizer.
NO_MEMORY = "AddressSanitizer: out-of-memory"
CRASH, HANG, BROKEN = "crash", "hang", "broken target"
MOST_LOST = 100  # processes that a target may cost before it is left


@dataclass(frozen=True)
class Finding:
    kind: str
    target: str
    seed: int
    case: int
    label: str
    text: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What findings that are probably one and the same have in common."""
        return self.kind, self.target, re.sub(r"\d+", "#", self.text)

    @property
    def command(self) -> str:
        return f"python -m tests.fuzz --target {self.target} --seed {self.seed} --case {self.case}"


@dataclass
class Tally:
    """What became of the cases of a target."""

    answers: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    lost: int = 0

    def __add__(self, other: Tally) -> Tally:
        answers, findings = self.answers + other.answers, self.findings + other.findings
        return Tally(answers, findings, self.lost + other.lost)


class Worker:
    """A process that runs cases from ``first`` to before ``last`` of one seed."""

    def __init__(
        self, target: str, seed: int, first: int, last: int | None, errors: IO[Any] | int | None
    ) -> None:
        self._reports, writer = Pipe(duplex=False)
        numbers = [str(n) for n in (writer.fileno(), seed, first, last) if n is not None]
        self._errors = errors
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.run_worker", target, *numbers],
            cwd=FOLDER.parents[1],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
            pass_fds=[writer.fileno()],
        )
        writer.close()

    def report(self, seconds: float | None) -> tuple[str, Any, Any] | None:
        """The next report, or nothing where the process has ended; TimeoutError if neither."""
        if not self._reports.poll(seconds):
            raise TimeoutError
        with suppress(EOFError, OSError):
            return self._reports.recv()
        return None

    def end(self) -> str:
        """Kill it and all that it started; return how it ended, if it did so by itself."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0.5)
        status = self._process.poll()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reports.close()
        return f"{ending(status)}; {self._last_words()}"

    def _last_words(self) -> str:
        if self._errors is None or isinstance(self._errors, int):
            return ""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - (1 << 16)))
        lines = self._errors.read().decode(errors="replace").splitlines()
        summary = [line for line in lines if line.startswith("SUMMARY: ")]
        return " | ".join(summary[-1:] or lines[-3:])


def ending(status: int | None) -> str:
    if status is None:
        return "goes on"
    return signal.Signals(-status).name if status < 0 else f"ended with status {status}"


def run_seed(target: str, seed: int, deadline: float, tally: Tally) -> None:
    """Run all cases of a seed, in a new process after each case that cost the last."""
    first: int | None = 0
    while first is not None and monotonic() < deadline and tally.lost < MOST_LOST:
        with tempfile.TemporaryFile() as errors:
            worker = Worker(target, seed, first, None, errors)
            try:
                finding = follow(worker, target, seed, deadline, tally)
            finally:
                how = worker.end()
        first = None
        if finding is not None:
            if NO_MEMORY in how:
                tally.answers[REFUSED] += 1
            else:
                tally.lost += 1
                if finding.kind != HANG or hangs_again(finding):
                    text = finding.text or how
                    tally.findings.append(Finding(**(vars(finding) | {"text": text})))
            first = finding.case + 1 if finding.kind != BROKEN else None


def follow(worker: Worker, target: str, seed: int, deadline: float, tally: Tally) -> Finding | None:
    """Count cases until they or the time end; what is found is the case that cost the process."""
    case, label, seconds, runs = -1, "", 0.0, False
    while True:
        try:
            report = worker.report(WAITS * seconds if runs else STARTUP)
        except TimeoutError:
            text = f"longer than {WAITS * seconds:g} s" if runs else f"no case for {STARTUP:g} s"
            return Finding(HANG if runs else BROKEN, target, seed, case, label, text)
        if report is None:
            return Finding(CRASH if runs else BROKEN, target, seed, case, label, "")
        event, first, second = report
        if event == "end":
            return None
        runs = event == "case"
        if runs:
            case, (label, seconds) = first, second
            continue
        tally.answers[first] += 1
        if first not in (ANSWERED, REFUSED):
            tally.findings.append(Finding(first, target, seed, case, label, second))
        if monotonic() > deadline:
            return None


def hangs_again(finding: Finding) -> bool:
    """Whether the case takes as long alone: a busy machine is no finding."""
    worker = Worker(
        finding.target, finding.seed, finding.case, finding.case + 1, subprocess.DEVNULL
    )
    try:
        if (started := worker.report(STARTUP)) is not None and started[0] == "case":
            worker.report(WAITS * started[2][1])
    except TimeoutError:
        return True
    finally:
        worker.end()
    return False


def run_lane(targets: Sequence[str], seed: int, step: int, minutes: float) -> dict[str, Tally]:
    """Run every target for an equal share of the time, with every ``step``-th seed."""
    tallies = {target: Tally() for target in targets}
    for target, tally in tallies.items():
        deadline = monotonic() + 60 * minutes / len(targets)
        current = seed
        while monotonic() < deadline and tally.lost < MOST_LOST:
            if any(finding.kind == BROKEN for finding in tally.findings):
                break
            run_seed(target, current, deadline, tally)
            current += step
    return tallies


def all_targets() -> list[str]:
    """Modules beside this one that yield cases."""
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    return [name for name in names if name != "case" and not name.startswith(("_", "run", "test_"))]


def table(tallies: dict[str, Tally]) -> Iterator[str]:
    yield f"{'target':16}{'cases':>9}{'answered':>10}{'refused':>9}{'findings':>10}"
    for target, tally in tallies.items():
        answers, found = tally.answers, len(tally.findings)
        cases = answers.total() + tally.lost
        yield f"{target:16}{cases:9}{answers[ANSWERED]:10}{answers[REFUSED]:9}{found:10}"


def summary(tallies: dict[str, Tally]) -> dict[str, Any]:
    """The table and all findings, for a file."""
    every = sum(tallies.values(), Tally())
    return {
        "command": " ".join(["python -m tests.fuzz", *sys.argv[1:]]),
        "circumstances": circumstances(),
        "address sanitizer": "libasan" in os.environ.get("LD_PRELOAD", ""),
        "cases": every.answers.total() + every.lost,
        "answers by target": {target: tally.answers for target, tally in tallies.items()},
        "processes lost": {target: tally.lost for target, tally in tallies.items()},
        "findings": [vars(found) | {"again": found.command} for found in every.findings],
    }


def describe(findings: list[Finding]) -> Iterator[str]:
    """Every different finding once, how often it came, and how to repeat it."""
    counts = Counter(finding.key for finding in findings)
    for key, count in counts.items():
        finding = next(finding for finding in findings if finding.key == key)
        yield f"{finding.kind} ({count} times), {finding.target}: {finding.label}"
        yield f"    {finding.text}"
        yield f"    again: {finding.command}"


def repeat(target: str, seed: int, case: int) -> int:
    """Run one case with its messages and its traceback on the standard error, however long."""
    worker = Worker(target, seed, case, case + 1, None)
    kind = CRASH
    try:
        while (report := worker.report(None)) is not None and report[0] != "end":
            sys.stdout.write(": ".join(map(str, report[1:])) + "\n")
            kind = report[1] if report[0] == "done" else kind
    finally:
        sys.stdout.write(f"{worker.end()}\n")
    return int(kind not in (ANSWERED, REFUSED))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", help=f"of {', '.join(all_targets())}")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--case", type=int, help="repeat this case of the target and the seed")
    parser.add_argument("--output", type=Path, help="JSON file for what the run did")
    given = parser.parse_args(arguments)
    targets = given.target or all_targets()
    if given.case is not None:
        return repeat(targets[0], given.seed, given.case)
    with ThreadPoolExecutor(given.jobs) as pool:
        lanes = [
            pool.submit(run_lane, targets, given.seed + lane, given.jobs, given.minutes)
            for lane in range(given.jobs)
        ]
    tallies = {t: sum((lane.result()[t] for lane in lanes), Tally()) for t in targets}
    findings = [found for tally in tallies.values() for found in tally.findings]
    sys.stdout.writelines(f"{line}\n" for line in [*table(tallies), *describe(findings)])
    if given.output:
        write_json(given.output, summary(tallies))
    return int(bool(findings))
