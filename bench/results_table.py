"""The table of all records: what each measured, by which command, where and at which commit.

    python -m bench.results_table --write     # bench/RESULTS.md

A test compares the page with the records.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.recorder import headers
from bench.schema import RESULTS

PAGE = Path(__file__).parent / "RESULTS.md"
HEAD = """# Records

Made by `python -m bench.results_table --write` from the files under `bench/results/`; figures of
the documents are tested against these files (`bench/figures.py`). "not recorded": the file predates
the field and is measured again before anything new is built on it. A series lists the values of all
of its runs. {counts}

"""
UNKNOWN = "not recorded"


def content() -> str:
    """The page."""
    records = {file: json.loads(file.read_text()) for file in sorted(RESULTS.rglob("*.json"))}
    known = sum(all(h["commit"] and h["processor"] for h in headers(r)) for r in records.values())
    clean = sum(
        all(h["tree"] == "clean" and h["processor"] for h in headers(r)) for r in records.values()
    )
    counts = (
        f"Of {len(records)} files {known} name commit and processor throughout, {clean} of them a "
        "clean tree."
    )
    return HEAD.format(counts=counts) + "\n".join([*table(records), ""])


def table(records: dict[Path, Any]) -> Iterator[str]:
    yield "| file | runs | processor | instruction set | threads | PyTorch | commit | command |"
    yield "|---|---|---|---|---|---|---|---|"
    for file, record in records.items():
        name = file.relative_to(RESULTS).as_posix()
        found = list(headers(record))
        cells = [
            f"[{name.removesuffix('.json')}](results/{name})",
            str(len(record.get("runs", [0]))),
            seen(h["processor"] for h in found),
            seen(h["instruction set"] for h in found),
            seen(h["threads"] for h in found),
            seen(h["versions"]["torch"] for h in found),
            seen(commit(h) for h in found),
            command(record),
        ]
        yield f"| {' | '.join(cells)} |"


def commit(header: dict[str, Any]) -> str | None:
    """Eight digits, and whether the files were those of the commit."""
    if not header["commit"]:
        return None
    named = f"`{header['commit'][:8]}`"
    return named if header["tree"] == "clean" else f"{named} {header['tree'] or '(tree unknown)'}"


def seen(values: Any) -> str:
    """All different values, in the order in which they appear."""
    return ", ".join(dict.fromkeys(UNKNOWN if value is None else str(value) for value in values))


def command(record: dict[str, Any]) -> str:
    """The command, or those of the runs."""
    found = [record.get("command"), *(run.get("command") for run in record.get("runs", []))]
    words = [each for one in found for each in (one if isinstance(one, list) else [one]) if each]
    if not words:
        return UNKNOWN
    first, others = words[0], len(set(words)) - 1
    text = f"`{first.replace('|', '/')}`"
    return f"{text} and {others} more" if others else text


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the page")
    if parser.parse_args(words).write:
        PAGE.write_text(content())
        return 0
    if is_new := PAGE.read_text() == content():
        print(f"{PAGE.name} is up to date")
    return int(not is_new)


if __name__ == "__main__":
    sys.exit(main())
