"""Records of benchmarks and training runs, in the form that ``bench/schema.json`` describes.

A file is one record, or a series of runs that are each a record. An existing file raises an error
unless ``--resume`` is given: then finished runs are kept and missing ones added, if code, versions,
processor, instruction set and settings are those of the file.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from equigeo.ops import kernels_info

REPOSITORY = Path(__file__).parents[1]
CODE = ("equigeo", "csrc", "bench")  # what a result can depend on
SUFFIXES = {".py", ".h", ".cpp", ".cu", ".cuh"}
RESULTS = ":(exclude)bench/results"  # records of one measurement after another change no code
PACKAGES = (
    *("equigeo", "torch", "numpy", "scipy", "lightning"),
    *("e3nn", "cuequivariance-torch", "sphericart-torch", "torch-geometric"),
)
# Variables that change how memory is had, how threads are placed, and which kernels run.
ALLOCATOR = ("MALLOC_", "GLIBC_TUNABLES", "THP_", "LD_PRELOAD", "EQUIGEO_RESULT_MEMORY")
# What has to be equal for runs to stand in one series.
SAME = ("code", "processor", "instruction set", "versions")


class Record:
    """A file of results, from the moment that it is promised until it is whole."""

    def __init__(
        self,
        output: Path | None,  # with None nothing is kept, and everything else works
        *,
        settings: Mapping[str, Any] | None = None,  # what all runs of the file have in common
        resume: bool | None = None,  # None where there is nothing to continue
    ) -> None:
        self.output = output
        self.settings = plain(settings or {})
        self.header = header()
        self.content: dict[str, Any] = {}
        if output is not None and output.exists():
            if not resume:
                way = "" if resume is None else "--resume continues it, "
                raise SystemExit(f"{output} exists: {way}another --output begins anew")
            self.content = json.loads(output.read_text())
            refuse_other(output, self.content, self.header, self.settings)

    @classmethod
    def series(cls, arguments: argparse.Namespace, *names: str) -> Record:
        """Open the record of a command line, whose runs have the named options in common."""
        settings = {name: getattr(arguments, name) for name in names}
        return cls(arguments.output, settings=settings, resume=arguments.resume)

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Finished runs, in the order in which they ended."""
        found: list[dict[str, Any]] = self.content.get("runs", [])
        return found

    def find(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the finished run that has all of these entries."""
        wanted = plain(key).items()
        return next((run for run in self.runs if wanted <= run.items()), None)

    def keep(
        self, key: Mapping[str, Any], make: Callable[[], Mapping[str, Any]], **packages: str
    ) -> dict[str, Any]:
        """Return the finished run of this key, or make it and write the file.

        A run that ends with an error leaves the file as it was. Versions of ``packages`` are
        written besides the usual ones.
        """
        if (found := self.find(key)) is not None:
            return found
        begun = header(**packages)
        made = plain({**begun, **key, **make()})
        self.content = {"settings": self.settings} | self.content | {"runs": [*self.runs, made]}
        self._write()
        return made

    def write(self, results: Mapping[str, Any], **packages: str) -> dict[str, Any]:
        """Write results behind the header, or what follows from the runs behind them."""
        if not self.runs:
            begun = header(**packages)
            begun["circumstances"] |= {
                name: self.header["circumstances"][name] for name in ("date", "load average")
            }
            self.content = begun | {"settings": self.settings} | self.content
        self.content |= plain(results)
        self._write()
        return self.content

    def _write(self) -> None:
        if not self.settings:
            self.content.pop("settings", None)
        if self.output is not None:
            write_json(self.output, self.content)


def parsed(
    parser: argparse.ArgumentParser,
    words: Sequence[str] | None = None,
    *,
    series: bool = False,
    threads: int | None = None,
    work: str = "",
    **options: Any,
) -> argparse.Namespace:
    """Parse with ``--output``, and ``--resume`` in ``series`` or ``--work``, and set ``--threads``.

    The default ``threads`` may be 0 for those of PyTorch, and None for scripts without the option.
    """
    options = {"type": Path, "help": "JSON file for the results"} | options
    parser.add_argument("--output", **options)
    if work:
        parser.add_argument("--work", type=Path, default=Path(work), help="folder of checkpoints")
    if series or work:
        text = "continue the file, if made by this code"
        parser.add_argument("--resume", action="store_true", help=text)
    if threads is not None:
        parser.add_argument("--threads", type=int, default=threads or torch.get_num_threads())
    given = parser.parse_args(words)
    if threads is not None:
        torch.set_num_threads(given.threads)
    return given


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(content, indent=1) + "\n")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as they come back from a file: tuples are lists there."""
    copied: dict[str, Any] = json.loads(json.dumps(values))
    return copied


def header(**packages: str) -> dict[str, Any]:
    """What every record begins with."""
    return {"command": typed_command(), "circumstances": circumstances(**packages)}


def headers(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Circumstances of every record in a file; a run without its own has those of the file."""
    parts = [content, *content.get("runs", []), *content.values()]
    for part in parts:
        if isinstance(part, dict) and isinstance(part.get("circumstances"), dict):
            yield part["circumstances"]


def refuse_other(
    output: Path, content: Mapping[str, Any], now: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """End with one message if a file was made otherwise than it would be continued."""
    if content.get("settings", {}) != settings:
        raise SystemExit(
            f"{output} has settings {json.dumps(content.get('settings', {}))}, "
            f"--resume was asked for {json.dumps(settings)}"
        )
    here = now["circumstances"]
    for there in list(headers(content)) or [{}]:
        for name in SAME:
            if there.get(name) == here[name]:
                continue
            was, expected = (
                (f"commit {side.get('commit')}, {side.get('tree')}" for side in (there, here))
                if name == "code"
                else (f"{name} {side.get(name)}" for side in (there, here))
            )
            raise SystemExit(f"{output} was made at {was}; --resume needs {expected}")


def circumstances(**packages: str) -> dict[str, Any]:
    """Code, machine and settings: what a reader of a figure asks first."""
    kept = {
        name: " ".join(Path(word).name for word in value.split(":"))  # not where files lie
        if name == "LD_PRELOAD"
        else value
        for name, value in sorted(os.environ.items())
        if name.startswith(ALLOCATOR)
    }
    return {
        **code_state(),
        "processor": processor(),
        "cores": cores(),
        "instruction set": kernels_info()["isa"],
        "threads": torch.get_num_threads(),
        "load average": [round(load, 2) for load in os.getloadavg()],
        "versions": versions() | packages,
        "allocator": kept,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a result can depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | {"torch": torch.__version__}  # with what it was built for


@functools.cache
def code_state() -> dict[str, str | None]:
    """Commit of this checkout as the process began, and a digest of the files that it reads."""
    try:
        named, _, changed = commit(REPOSITORY).partition(" ")
    except (OSError, subprocess.CalledProcessError):  # a copy without history
        named = changed = None
    tree = changed or "clean" if named else None
    return {"commit": named, "tree": tree, "code": digest(REPOSITORY)}


def commit(checkout: Path) -> str:
    """The commit of a checkout, and whether tracked files differ from it."""
    status = _git(checkout, "status", "--porcelain", "--untracked-files=no", "--", ".", RESULTS)
    return _git(checkout, "rev-parse", "HEAD").strip() + (" with changes" if status else "")


def digest(checkout: Path) -> str:
    """Digest of all code of a checkout, committed or not."""
    files = (path for name in CODE for path in (checkout / name).rglob("*"))
    total = hashlib.sha256()
    for path in sorted(path for path in files if path.suffix in SUFFIXES):
        name = path.relative_to(checkout).as_posix()
        total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def _git(checkout: Path, *words: str) -> str:
    return subprocess.check_output(["git", "-C", str(checkout), *words], text=True)


def typed_command() -> str:
    """What was typed, without where files lie."""
    module = sys.modules["__main__"].__spec__
    name = module.name.removesuffix(".__main__") if module else Path(sys.argv[0]).name
    kept = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return shlex.join(["python", *(["-m"] if module else []), name, *kept])


def processor() -> str:
    """Name of the processor, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def going_on(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the folder of a run in ``--work`` for this code, and whether to resume the run."""
    folder = Path(arguments.work, str(code_state()["code"]), *names)
    return {"output": folder, "resume": arguments.resume, "overwrite": not arguments.resume}


def chosen(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return those of the options that were given or have a default."""
    found = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}
