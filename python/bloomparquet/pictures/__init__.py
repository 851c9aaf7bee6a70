"""Owns the pictures of filters and of advice, showing them in notebooks, and reports as files.

Must not read files: it draws results. The picture of a plan belongs to :mod:`bloomparquet.planning`.
"""
