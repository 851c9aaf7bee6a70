"""Owns the index of a data set as plans see it: where it lies, its manifest, and which files it has.
Owns also the cache of what plans read, whose files are segments of the same format.

Must not know what a file format says about columns.
"""
