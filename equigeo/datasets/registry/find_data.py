"""Lookup of data by path or by the name of a known data set."""

from __future__ import annotations

from pathlib import Path

from equigeo.datasets.registry.convert_data_set import coseg_folder
from equigeo.datasets.registry.data_set import DataSet
from equigeo.datasets.registry.data_sets import DATA_SETS
from equigeo.datasets.registry.open_data_set import how_to_get


def find_data(
    given: str,  # an existing path has precedence over a name
    task: str,  # task that the data are for
) -> Path:
    """Return the absolute path of a file, folder or known data set such as "coseg/vases"."""
    path = Path(given)
    if path.exists():
        return path.resolve()
    name, slash, collection = given.partition("/")
    for entry in DATA_SETS:
        if entry.name == name and (entry.collections or not slash):
            return _location(entry, task, collection).resolve()
    return path.resolve()


def _location(entry: DataSet, task: str, collection: str) -> Path:
    problem = f"{entry.name}: no such file or folder"
    if task not in entry.tasks:
        tasks = " and ".join(entry.tasks)
        raise ValueError(f"{problem}, and the data set {entry.name} is for the task {tasks}")
    if not entry.is_present:
        raise ValueError(f"{problem}; {how_to_get(entry)}")
    if not entry.collections:
        return entry.location
    if collection not in entry.collections:
        names = ", ".join(f"{entry.name}/{one}" for one in entry.collections)
        raise ValueError(f"the data set {entry.name} has several collections: name one of {names}")
    return coseg_folder(entry.location, f"{entry.name}_{collection}")
