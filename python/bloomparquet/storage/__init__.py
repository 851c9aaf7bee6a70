"""Owns files as bytes: list them, read ranges, replace them atomically, notice that they changed.

Must not know any file format, predicate or encryption key.
"""
