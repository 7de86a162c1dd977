"""Layers of all families beside their peers and bounds: one record, or a comparison with it.

    python -m bench.layers --output build/bench/layers.json      # make bench
    python -m bench.layers --size short --seconds 0.3            # make bench-short
    python -m bench.layers --once                                # make test-bench
    python -m bench.layers --minutes 20 --keep                   # make bench-record
    python -m bench.layers --size short --check                  # make bench-check
    python -m bench.layers --library mace                        # make bench-mace

Results are compared with those of peers before anything is timed; a difference is an error, and
the other rows go on. ``--keep`` writes or continues ``bench/results/layers.json``, or
``layers_<library>.json``. ``--check`` fails if a ratio is less than 0.8 of the one recorded in each
of three measurements.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from typing import Any

from bench.recorder import REPOSITORY, Record, circumstances, parsed
from bench.row import NotInstalledError, Row, measure, prepared, shown
from bench.rows import all_rows

RESULTS = REPOSITORY / "bench" / "results"
SIZES = ("short", "usual", "large")
LEAST = 0.8  # of the ratio that was
REPETITIONS = 3  # of rows that seem to be slower
MACHINE = ("processor", "cores", "instruction set", "threads")


def chosen_rows(select: str, size: str, library: str = "") -> list[Row]:
    """Rows up to a size that have these words in their names, and peers in an environment."""
    found = [row for row in all_rows() if SIZES.index(row.size) <= SIZES.index(size)]
    found = [row for row in found if select in row.name and library in ("", *row.libraries)]
    if not found:
        raise SystemExit(f"no row has {select!r} in its name and peers in {library or 'any'}")
    return found


def record_rows(rows: list[Row], record: Record, given: argparse.Namespace) -> list[str]:
    """Measure what is missing, write the file after each row, and return errors."""
    begun, errors = time.monotonic(), []
    clock = time.process_time if given.ours else time.perf_counter
    for row in rows:
        key = {**row.key, "threads": given.threads}
        if record.find(key) is not None:
            continue
        if time.monotonic() - begun > 60 * given.minutes:
            errors.append(f"{row.name}: not measured within {given.minutes:g} minutes")
            continue
        try:
            run = record.keep(key, lambda row=row: measure(row, given.seconds, given.ours, clock))
        except NotInstalledError as error:
            print(f"{row.name}: skipped, {error}")
            continue
        except (AssertionError, ImportError, RuntimeError, ValueError) as error:
            errors.append(f"{row.name}: {' '.join(str(error).split())[:300]}")
            print(f"ERROR {errors[-1]}", flush=True)
            continue
        print(f"{row.name}: {shown(run)}", flush=True)
        for peer, command in run["absent"].items():
            print(f"  {peer} is not installed: {command}")
    return errors


def compare_all(rows: list[Row]) -> int:
    """Compare the results of all rows; time nothing."""
    for row in rows:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of peers, and of windows of samples
                prepared(row)
        except NotInstalledError as error:
            print(f"{row.name}: skipped, {error}")
    print(f"{len(rows)} rows: results agree with those of peers")
    return 0


def ratios(run: dict[str, Any]) -> dict[str, float]:
    """Ratios of a run by pass and peer."""
    return {f"{k}, {p}": x for k, found in run["ratio"].items() for p, x in found.items()}


def fallen(row: Row, before: dict[str, Any], seconds: float) -> dict[str, float]:
    """What is left of ratios that have fallen by more than a fifth in every repetition."""
    was, left = ratios(before), {}
    for repetition in range(REPETITIONS):
        now = ratios(measure(row, seconds))
        shares = {key: now[key] / was[key] for key in now.keys() & was.keys()}
        lower = {key: share for key, share in shares.items() if share < LEAST}
        left = lower if not repetition else {k: x for k, x in lower.items() if k in left}
        if not left:
            break
    return left


def check(rows: list[Row], runs: list[dict[str, Any]], given: argparse.Namespace) -> int:
    """Print which ratios have fallen against the record of this machine; 1 if any has."""
    here, slower = circumstances(), 0
    for run in runs:
        for name in MACHINE:
            if run["circumstances"][name] != here[name]:
                raise SystemExit(
                    f"the record has {name} {run['circumstances'][name]}, this machine "
                    f"{here[name]}: make bench-record measures it"
                )
    for row in rows:
        before = next((run for run in runs if row.key.items() <= run.items()), None)
        if before is None:
            print(f"{row.name}: is not in the record")
            continue
        for key, share in fallen(row, before, given.seconds).items():
            print(f"{row.name}, {key}: {share:.0%} of the ratio that it had")
            slower += 1
    print(f"{slower} ratios have fallen by more than {1 - LEAST:.0%}")
    return int(slower > 0)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--select", default="", help="rows whose name has this")
    parser.add_argument("--library", default="", help="rows with peers in this environment")
    parser.add_argument("--size", choices=SIZES, default="usual", help="largest size of rows")
    parser.add_argument("--seconds", type=float, default=2.0, help="of timing per row")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which no row begins")
    parser.add_argument("--ours", action="store_true", help="no peers, seconds of the processor")
    parser.add_argument("--once", action="store_true", help="compare each once, time nothing")
    parser.add_argument("--keep", action="store_true", help="write or continue the record")
    parser.add_argument("--check", action="store_true", help="compare with the record")
    given = parsed(parser, words, series=True, threads=1)
    rows = chosen_rows(given.select, given.size, given.library)
    kept = RESULTS / f"layers{'_' * bool(given.library)}{given.library}.json"
    if given.once:
        return compare_all(rows)
    if given.check:
        if not kept.exists():
            raise SystemExit(f"{kept.relative_to(REPOSITORY)} does not exist: make bench-record")
        return check(rows, json.loads(kept.read_text())["runs"], given)
    output, resume = (kept, True) if given.keep else (given.output, given.resume)
    errors = record_rows(rows, Record(output, resume=resume), given)
    print("\n".join(errors) or f"{len(rows)} rows are measured")
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(main())
