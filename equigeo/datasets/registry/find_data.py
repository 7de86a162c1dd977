"""Where data are that a user named by a path or as a known data set."""

from __future__ import annotations

from pathlib import Path

from equigeo.datasets.registry.convert_data_set import coseg_folder
from equigeo.datasets.registry.data_set import DataSet
from equigeo.datasets.registry.data_sets import DATA_SETS
from equigeo.datasets.registry.open_data_set import how_to_get


def find_data(given: str, task: str) -> Path:
    """Give the path of a file or folder, or of the known data set of that name.

    Parameters
    ----------
    given : str
        A path, which comes first where there is such a file or folder; or a name as
        ``equigeo data list`` shows it, with the collection of one that has several:
        ``"coseg/vases"``.
    task : str
        Name of the task that the data are for.

    Returns
    -------
    Path
        Absolute; whether the path of no known data set exists is for its reader to say.

    Raises
    ------
    ValueError
        If the data set of that name is not there (the message says what to type), is for other
        tasks, or its collection is not named.

    Examples
    --------
    >>> find_data("mnist", "tsp")
    Traceback (most recent call last):
        ...
    ValueError: mnist: no such file or folder, and the data set mnist is for the task affnist
    """
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
