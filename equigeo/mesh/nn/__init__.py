"""Layers and networks on primal-dual graphs."""
