"""Tests in forks of a process that has imported other libraries, and not yet equigeo."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.abc
import importlib.machinery
import linecache
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.mutants.sources import ROOT
from tests.mutants.switches import MOST

PRELOADED = (
    *("torch", "torch._dynamo", "torch._inductor", "torch.export", "numpy", "scipy.spatial"),
    *("scipy.sparse.csgraph", "e3nn.o3", "trimesh", "hypothesis", "pytest", "lightning"),
    *("torch_geometric", "coverage", "tests.mutants.forks"),
)
OPTIONS = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(list(PRELOADED))


@dataclass
class Task:
    """Which tests run in a fork, with which mistake, and what is noted about them."""

    files: Sequence[str]
    order: Sequence[str] | None = None  # tests by their ids; None runs all tests of the files
    known: frozenset[str] = frozenset()  # tests to leave out unless they differ by tier
    without: frozenset[str] = frozenset()  # tests to leave out
    first: str = ""  # tests with this word in their ids run first
    source: tuple[str, str] | None = None  # a file of the package, and its text with a mistake
    library: str = ""  # a library of kernels with mistakes to choose from
    number: int = -1  # the mistake that it makes
    coverage: str = ""  # where to write which lines each test comes by
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Answer:
    """What happened in a fork."""

    failed: str = ""  # a test; empty if all tests passed
    how: str = ""  # failed, crash or time-out
    message: str = ""
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)  # finished tests
    marks: dict[str, list[int]] = field(default_factory=dict)  # mistakes of kernels by context


def run_tests(task: Task, limits: Mapping[str, float], limit: float, budget: float) -> Answer:
    """Run tests in a fork until one fails, each for its limit and all of them for ``budget``."""
    reader, writer = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_work, args=(task, writer))
    process.start()
    writer.close()
    answer, last, end = Answer(), "", time.monotonic() + budget
    try:
        while True:
            left = end - time.monotonic()
            wait = limits.get(last, limit)
            if not reader.poll(max(0.0, min(wait, left))):
                # Tests that use up the budget have not failed.
                outcome = ("", "out of budget") if wait > left else (last, "time-out")
                answer.failed, answer.how = outcome
                break
            word, *values = reader.recv()
            if word == "start":
                last = values[0]
            elif word == "passed":
                answer.tests[last] = values[0]
            elif word == "failed":
                answer.failed, answer.how, answer.message = values[0], "failed", values[1]
                if not task.coverage:
                    break
            elif word == "broken":
                raise RuntimeError(values[0])
            else:
                answer.marks = values[0]
                break
    except EOFError:
        if not answer.failed:
            answer.failed, answer.how = last or "collection", "crash"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        reader.close()
    return answer


def _work(task: Task, writer: Any) -> None:
    os.setsid()
    output = os.open(os.devnull, os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(ROOT)
    os.environ.update(task.variables)
    if "equigeo" in sys.modules:
        writer.send(("broken", "equigeo is imported before the mistake is made"))
    if task.source:
        sys.meta_path.insert(0, Mistaken(*task.source))
    watch = Watch(task, writer)
    until = "--continue-on-collection-errors" if task.coverage else "-x"
    code = pytest.main([*OPTIONS, until, *task.files], plugins=[watch])
    if code > 1 and code != pytest.ExitCode.NO_TESTS_COLLECTED and not watch.failed:
        writer.send(("failed", "collection", str(code)))
    watch.finish()
    writer.close()
    os._exit(0)


class Mistaken(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Imports one module from a text instead of its file."""

    def __init__(self, file: str, text: str) -> None:
        name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        super().__init__(name, str(ROOT / file))
        self.text = text
        # For whatever reads the source of a function; entries without a date are not checked.
        lines = text.splitlines(keepends=True)
        linecache.cache[self.path] = (len(text), None, lines, self.path)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.text.encode(), self.path)


class Watch:
    """A plugin of pytest that selects tests, and reports each as it starts and ends."""

    def __init__(self, task: Task, writer: Any) -> None:
        self.task, self.writer = task, writer
        self.places = {name: n for n, name in enumerate(task.order or ())}
        self.context, self.failed, self.seconds = "", False, 0.0
        self.marks: dict[str, set[int]] = {}
        self.coverage = self.library = None
        if task.coverage:
            import coverage

            self.coverage = coverage.Coverage(
                data_file=task.coverage, source=[str(ROOT / "equigeo")], messages=False
            )
            self.coverage.start()
        if task.library:
            import equigeo.ops  # noqa: F401 - loads the library, as the variables say

            self.library = ctypes.CDLL(task.library)
            self.library.equigeo_choose(task.number)

    def switch(self, context: str) -> str:
        """Begin to note lines and mistakes under another name; return the name before."""
        before, self.context = self.context, context
        if self.coverage:
            self.coverage.switch_context(context)
        if self.library:
            marks = ctypes.create_string_buffer(MOST)
            self.library.equigeo_take_reached(marks)
            numbers = {n for n, mark in enumerate(marks.raw) if mark != b"\0"[0]}
            self.marks.setdefault(before, set()).update(numbers)
        return before

    def pytest_collection(self) -> None:
        """Come before pytest, which imports files that it is told to collect by itself."""
        sys.meta_path.sort(key=lambda finder: not isinstance(finder, Mistaken))

    def finish(self) -> None:
        self.switch("")
        if self.coverage:
            self.coverage.stop()
            self.coverage.save()
        self.writer.send(("end", {name: sorted(found) for name, found in self.marks.items()}))

    def wanted(self, item: pytest.Item) -> bool:
        if item.nodeid in self.task.without:
            return False
        if self.task.order is not None:
            return item.nodeid in self.places
        return item.nodeid not in self.task.known or differs_by_tier(item)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = filter(self.wanted, items)
        if self.task.order is not None:
            items.sort(key=lambda item: self.places[item.nodeid])
        items.sort(key=lambda item: self.task.first not in item.nodeid)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.writer.send(("start", item.nodeid))
        self.seconds = 0.0
        self.switch(item.nodeid)
        yield
        self.switch("")
        if not self.failed:
            facts = {"seconds": round(self.seconds, 3), "fixtures": shared_fixtures(item)}
            self.writer.send(("passed", facts))
        self.failed = False

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Note what a fixture of many tests does under its own name."""
        shared = fixturedef.scope != "function"
        before = self.switch(fixture_name(fixturedef)) if shared else ""
        yield
        if shared:
            self.switch(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds += report.duration
        self.fail(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.fail(report)

    def fail(self, report: Any) -> None:
        if report.failed:
            self.failed = True
            lines = report.longreprtext.strip().splitlines() or [""]
            reason = next((line for line in lines if line.startswith("E ")), lines[-1])
            self.writer.send(("failed", report.nodeid, reason[:200]))


def fixture_name(fixturedef: Any) -> str:
    return f"fixture {fixturedef.baseid}::{fixturedef.argname}"


def shared_fixtures(item: Any) -> list[str]:
    """Return names of the fixtures of a test that other tests have, too."""
    info = getattr(item, "_fixtureinfo", None)
    found = info.name2fixturedefs.values() if info else ()
    return [fixture_name(defs[-1]) for defs in found if defs[-1].scope != "function"]


def differs_by_tier(item: Any) -> bool:
    """Whether a test of both tiers does more in the full one: examples, or items of a loop."""
    function = getattr(item, "obj", None)
    if getattr(function, "is_hypothesis_test", False):
        return True
    code = getattr(function, "__code__", None)
    return code is not None and not {"tier", "FULL"}.isdisjoint(code.co_names)
