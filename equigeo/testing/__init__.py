"""Public test helpers: every tolerance comes from here."""

from equigeo.testing.tolerance import tolerance

__all__ = ["tolerance"]
