"""Argument checks, configuration, messages and caches that every package uses."""
