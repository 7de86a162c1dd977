"""The files of a run: configuration, history and checkpoint, each either old or new."""
