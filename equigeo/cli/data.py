"""``equigeo data``: list, fetch, convert and verify published data sets."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from equigeo._core.text import printable
from equigeo.cli.parser import Parser, add_command, add_verbosity
from equigeo.datasets.registry.access import fetch_data_set, how_to_get, verify_data_set
from equigeo.datasets.registry.catalogue import DATA_SETS, DataSet, data_root, find_data_set
from equigeo.datasets.registry.convert import convert_data_set

_ERROR = "0, or 2 after an error."
_STATUS = (
    "0, 1 if verify finds a wrong or missing file, 2 after an error.\nData lie in $EQUIGEO_DATA, "
    "or else in the folder data of the cache ($EQUIGEO_CACHE or the user's)."
)


def progress(name: str, unit: str = "it") -> Callable[[int, int | None], None] | None:
    """Return a callback with (done, total) that shows a bar, or None without tqdm."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    bar = tqdm(desc=name, unit=unit, unit_scale=unit == "B")  # bytes

    def show(done: int, total: int | None) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return show


def add_options(parser: Parser) -> None:
    """Add the subcommands."""
    parser.explain(
        _STATUS,
        "equigeo data list",
        "equigeo data fetch mnist",
        "equigeo data convert modelnet10 ~/Downloads/ModelNet10.zip",
        "equigeo data verify mnist",
    )  # fmt: skip
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    add_command(actions, "list", "what exists, and what is present", _fill_list)
    add_command(actions, "fetch", "download by https", _fill_fetch)
    add_command(actions, "convert", "check files got by hand, and put them in place", _fill_convert)
    add_command(actions, "verify", "compare files with their checksums", _fill_verify)


def _fill_list(listing: Parser) -> None:
    listing.explain(_ERROR, "equigeo data list", "equigeo data list --json")
    listing.add_argument("--json", action="store_true", help="print JSON (default: a table)")
    listing.set_defaults(run=_list)


def _fill_fetch(fetch: Parser) -> None:
    fetch.explain(_ERROR, "equigeo data fetch mnist tsplib", "equigeo data fetch qm9 --dry-run")
    fetch.add_argument("names", nargs="+", metavar="NAME", help="as list shows them")
    fetch.add_argument(
        "--dry-run", action="store_true",
        help="print what would be fetched, from where and how much (default: no)",
    )  # fmt: skip
    add_verbosity(fetch)
    fetch.set_defaults(run=_fetch)


def _fill_convert(convert: Parser) -> None:
    convert.explain(_ERROR, "equigeo data convert modelnet10 ~/Downloads/ModelNet10.zip")
    convert.add_argument("name", metavar="NAME", help="as list shows it")
    convert.add_argument("source", type=Path, metavar="SOURCE", help="file or folder, see list")
    add_verbosity(convert)
    convert.set_defaults(run=_convert)


def _fill_verify(verify: Parser) -> None:
    verify.explain(_STATUS, "equigeo data verify", "equigeo data verify mnist --json")
    verify.add_argument(
        "names", nargs="*", default=(), metavar="NAME", help="default: all that are present"
    )
    verify.add_argument("--json", action="store_true", help="print JSON (default: lines)")
    verify.set_defaults(run=_verify)


def _list(options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps([_described(entry) for entry in DATA_SETS], indent=1))
        return 0
    print(f"in {printable(data_root())}:")
    for entry in DATA_SETS:
        state = "present" if entry.is_present else "absent"
        print(f"\n{entry.name}  ({state}, {_size(entry.bytes)})")
        print(f"  {entry.title}")
        print(f"  licence: {entry.licence}; from {entry.source}")
        print(f"  {_use(entry)}" if entry.is_present else f"  {printable(how_to_get(entry))}")
    return 0


def _described(entry: DataSet) -> dict[str, Any]:
    names = "name title tasks licence source bytes is_present path manual".split()
    return {name: getattr(entry, name) for name in names} | {"path": str(entry.path)}


def _size(size: int | None) -> str:
    return "size unknown" if size is None else f"{size / 1e6:.1f} MB"


def _use(entry: DataSet) -> str:
    """Return the next shell command and its Python equivalent."""
    python = f"in Python: equigeo.datasets.load({entry.name!r})"
    if not entry.tasks:
        return python
    begin = (
        "equigeo evaluate CHECKPOINT" if "tsp" in entry.tasks else f"equigeo train {entry.tasks[0]}"
    )
    where = f"{entry.name}/{entry.collections[0]}" if entry.collections else entry.location
    return f"{begin} --data {printable(where)}; {python}"


def _fetch(options: argparse.Namespace) -> int:
    for entry in [find_data_set(name) for name in options.names]:
        if options.dry_run:
            _print_plan(entry)
            continue
        if not options.quiet:
            print(f"{entry.name}: {entry.licence}; from {entry.source}", file=sys.stderr)
        fetched = fetch_data_set(
            entry, None if options.quiet else lambda file: progress(file.name, "B")
        )
        unknown = [file.name for file in entry.files if file.sha256 is None]
        for name in fetched:
            note = "  (checksum not known beforehand, recorded now)" if name in unknown else ""
            print(f"{printable(entry.path / name)}{note}")
        if not fetched:
            print(f"{entry.name}: its files are there already, in {printable(entry.path)}")
        convert = f"next: equigeo data convert {entry.name} {printable(entry.fetched)}"
        print(_use(entry) if entry.is_present else convert)
    return 0


def _print_plan(entry: DataSet) -> None:
    """Print the planned downloads."""
    if not entry.is_fetchable:
        print(f"{entry.name}: {printable(how_to_get(entry))}")
    for file in entry.files if entry.is_fetchable else ():
        there = (entry.path / file.name).exists()
        state = "is there already" if there else f"{_size(file.bytes)} from {file.url}"
        print(f"{printable(entry.path / file.name)}: {state}")


def _convert(options: argparse.Namespace) -> int:
    entry = find_data_set(options.name)
    shown = None if options.quiet else progress(entry.name)
    for name in convert_data_set(entry, options.source, shown):
        print(printable(entry.path / name))
    print(_use(entry))
    return 0


def _verify(options: argparse.Namespace) -> int:
    entries = [find_data_set(name) for name in options.names]
    entries = entries or [entry for entry in DATA_SETS if entry.is_present]
    found = {entry.name: verify_data_set(entry) for entry in entries}
    if options.json:
        print(json.dumps({name: [vars(one) for one in all_] for name, all_ in found.items()}))
    else:
        for name, all_ in found.items():
            for one in all_:
                print(f"{one.state:<9} {name}/{printable(one.name)}  {one.digest}".rstrip())
        if not found:
            print(f"nothing is present in {printable(data_root())}; see: equigeo data list")
    return 1 if any(one.is_bad for all_ in found.values() for one in all_) else 0
