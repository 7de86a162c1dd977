"""Wrapper of trimesh parsers that collects warnings and converts exceptions."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable
from typing import Any

from equigeo.mesh.errors import MeshError


def parse_with_trimesh(
    parse: Callable[..., dict[str, Any]],  # takes a binary stream
    data: bytes,
    problem: str,  # start of the error message
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Run a parser of ``trimesh.exchange``; return result and warnings, or raise ``MeshError``."""
    collector, log = _Collector(), logging.getLogger("trimesh")
    log.addHandler(collector)  # without any handler Python would print to standard error
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # NumPy tells of text that is no number by this warning alone.
            warnings.filterwarnings("error", message="string or file could not be read")
            parsed = parse(io.BytesIO(data))
    except Exception as error:
        raise MeshError(f"{problem} ({type(error).__name__}: {_one_line(error)})") from error
    finally:
        log.removeHandler(collector)
    notes = [*(_one_line(item.message) for item in caught), *collector.messages]
    return parsed, tuple(dict.fromkeys(notes))


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(_one_line(record.getMessage()))


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:200]
