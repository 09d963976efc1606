"""The JSON files of a run directory, read and checked."""
