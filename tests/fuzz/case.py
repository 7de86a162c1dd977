"""One hostile call, as fuzzing targets yield them.

A target is a module ``tests/fuzz/<name>.py`` with a function ``cases(seed) -> Iterator[Case]``,
which gives the same cases in the same order for the same seed, finitely many or not. It makes a
case quickly and does the work in ``Case.call``.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """What is called, and how it may be answered: by returning, or by one of these errors.

    An exception of another type is a poor answer, and so is a message that is long or names places
    in source files. What takes longer than six times ``seconds``, in a process alone too, hangs.
    """

    label: str
    call: Callable[[], object]
    refused_by: tuple[type[BaseException], ...]
    must_refuse: bool = False  # returning is silent acceptance
    seconds: float = 5.0
