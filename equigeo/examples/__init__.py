"""Short programs to copy from: ``python -m equigeo.examples.<name> --help``."""
