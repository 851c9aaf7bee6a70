"""Owns the index of a data set as plans see it: where it lies, its manifest, and which files it has.

Must not know what a file format says about columns.
"""
