"""The version, for the package and for modules that it imports itself."""

__version__ = "0.1.0"
