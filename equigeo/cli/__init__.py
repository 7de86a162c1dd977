"""The command line: ``equigeo train``, ``evaluate``, ``predict`` and ``info``."""

from equigeo.cli.main import main

__all__ = ["main"]
