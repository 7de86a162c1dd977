"""Files of a run: configuration, history and checkpoint, each written atomically."""
