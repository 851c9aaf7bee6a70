"""Owns the index of a data set as plans see it: where it lies, its manifest, and its segments."""
