"""Where data are that a user named by a path or as a known data set."""

from __future__ import annotations

from pathlib import Path

from equigeo.datasets.registry.data_sets import DATA_SETS
from equigeo.datasets.registry.open_data_set import how_to_get


def find_data(given: str, task: str) -> Path:
    """Give the path of a file or folder, or of the known data set of that name.

    Parameters
    ----------
    given : str
        A path, which comes first where there is such a file or folder; or a name as
        ``equigeo data list`` shows it.
    task : str
        Name of the task that the data are for.

    Returns
    -------
    Path
        Absolute; whether the path of no known data set exists is for its reader to say.

    Raises
    ------
    ValueError
        If the data set of that name is not there (the message says what to type), or is for
        other tasks.

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
    for entry in DATA_SETS:
        if entry.name != given:
            continue
        if task not in entry.tasks:
            tasks = " and ".join(entry.tasks)
            raise ValueError(
                f"{given}: no such file or folder, and the data set {given} is for the task {tasks}"
            )
        if not entry.is_present:
            raise ValueError(f"{given}: no such file or folder; {how_to_get(entry)}")
        return entry.location.resolve()
    return path.resolve()
