"""Registry of known data sets: download, conversion, verification and loading."""
