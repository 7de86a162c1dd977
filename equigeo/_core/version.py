"""The version, for the package and for modules that it imports itself."""

__version__ = "0.2.0"
