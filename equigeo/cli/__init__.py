"""The command line: ``equigeo train``, ``evaluate``, ``predict``, ``data``, ``doctor`` ..."""

from equigeo.cli.main import main

__all__ = ["main"]
__dir__ = __all__.copy
