"""Owns queries: predicates, their SQL, literals, column names, and their truth for a row or a verdict.

Must not know any file: no path, no byte, no format.
"""
