"""Comparison of every op with its reference implementation; ``equigeo selftest``, an old name."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from typing import Any, Final

import equigeo
from equigeo._core.deprecation import RENAMED, Renamed
from equigeo._core.text import message
from equigeo.cli.options import add_machine, use_machine
from equigeo.cli.parser import PROGRAM, Parser, add_verbosity

_OLD: Final = Renamed(f"{PROGRAM} doctor", since="0.3")
RENAMED[f"{PROGRAM} selftest"] = _OLD


def add_options(parser: Parser) -> None:
    """Add the options."""
    parser.explain(
        "0, 1 if an op is wrong, 2 after an error.",
        "equigeo selftest",
        "equigeo selftest --threads 1 --json",
        "EQUIGEO_ISA=baseline equigeo selftest",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON (default: lines)")
    add_machine(parser, "cpu")
    add_verbosity(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    text = f"selftest is a part of {_OLD.new}; the old name goes away in {_OLD.removed_in}"
    print(f"{PROGRAM}: {text}", file=sys.stderr)
    found = run_checks(str(use_machine(options, is_long=False)))
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        print_checks(found, each=not options.quiet)
    return 1 if found["problems"] else 0


def run_checks(device: str = "cpu") -> dict[str, Any]:
    """Test every op; return ``ops``, ``problems`` and ``seconds`` as JSON types."""
    start = time.perf_counter()
    checks = equigeo.ops.check_ops(device)
    return {
        "ops": [asdict(check) for check in checks],
        "seconds": round(time.perf_counter() - start, 2),
        "problems": [check.text for check in checks if check.state == "failed"],
    }


def print_checks(found: dict[str, Any], *, each: bool = False) -> None:
    """Print the result of :func:`run_checks`: the failures, or a line for each op."""
    states = [check["state"] for check in found["ops"]]
    width = max((len(check["op"]) for check in found["ops"]), default=0)
    for check in found["ops"]:
        if check["state"] == "failed":
            print(f"FAILED {message(check['text'])}")
        elif each:
            print(f"{check['op']:<{width}}  {check['state']}  {check['seconds']:.2f} s")
    counts = ", ".join(f"{states.count(x)} {x}" for x in sorted({*states}))
    number, seconds = len(states), found["seconds"]
    print(f"{number} ops beside their reference implementations in {seconds} s: {counts}")
