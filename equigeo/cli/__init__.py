"""The command line: ``equigeo train``, ``evaluate``, ``predict``, ``data``, ``doctor`` ..."""

from equigeo.cli.main import main

__all__ = ["main"]


def __dir__() -> list[str]:
    return __all__
