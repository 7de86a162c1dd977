"""Library-independent descriptions of modules, and modules built from them."""
