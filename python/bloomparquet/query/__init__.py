"""Owns queries: predicates, their SQL, literals, column names, and their truth for a row or a verdict.

Must not read files: no path, no bytes. It knows formats only as the type names in a schema (columns.py).
"""
