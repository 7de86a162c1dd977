"""The same surface with another number of faces."""
