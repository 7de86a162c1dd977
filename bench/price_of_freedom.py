"""What equivariant products cost, for small and for large batches, and where which is the fastest.

    python -m bench.price_of_freedom --output bench/results/price_of_freedom.json

The comparison of ``python -m equigeo.examples.price_of_freedom``, of which every table is a run of
the record; ``--resume`` continues it. Times of a table are medians of interleaved rounds.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any, get_args

from bench.recorder import Record, parsed
from equigeo import tensor_products as tp
from equigeo.examples.price_of_freedom import EVEN, GAUNT, crossovers
from equigeo.tensor_products.analysis.compare import ComparisonRow
from equigeo.tensor_products.analysis.compared_product import Setting


def fastest(comparisons: list[tp.Comparison]) -> dict[str, list[str]]:
    """From which degree on which product is the fastest, of tables of one setting and batch."""
    return {
        "Gaunt products": crossovers(comparisons, GAUNT),
        "products of even paths": crossovers(comparisons, EVEN),
    }


def comparison(run: dict[str, Any]) -> tp.Comparison:
    """The table that a run holds."""
    table = dict(run["comparison"])
    rows = tuple(ComparisonRow(**row) for row in table.pop("rows"))
    return tp.Comparison(**table, rows=rows)


def table(setting: Setting, batch: int, lmax: int, repetitions: int) -> dict[str, Any]:
    found = tp.compare(lmax, setting, batch=batch, repetitions=repetitions)
    return {"comparison": asdict(found)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lmax", type=int, default=10, help="largest degree of the inputs")
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument("--repetitions", type=int, default=11)
    given = parsed(parser, series=True, threads=1)
    record = Record.series(given, "repetitions", "threads")
    found: dict[str, Any] = {}
    for batch, setting in product(given.batches, get_args(Setting)):
        tables, name = [], f"{setting}, batch {batch}"
        for lmax in range(1, given.lmax + 1):
            key = {"setting": setting, "batch": batch, "lmax": lmax}
            run = record.keep(key, partial(table, **key, repetitions=given.repetitions))
            tables.append(comparison(run))
        found[name] = fastest(tables)
        print(f"{name}: {found[name]}", flush=True)
    record.write({"fastest": found})


if __name__ == "__main__":
    main()
