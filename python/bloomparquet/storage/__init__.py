"""Owns files as bytes: list them, read ranges, replace them atomically, detect changes and tables with a log.

Must not know what a file contains: no format, predicate or encryption key.
"""
