"""Classes of accelerated modules: the original state with a ``forward`` on ops of this library."""
