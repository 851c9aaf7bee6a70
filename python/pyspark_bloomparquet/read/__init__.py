"""Owns reading by the Python data source: the listing, the schema, the splits, the rows as Arrow batches.

It does not know the jar.
"""
