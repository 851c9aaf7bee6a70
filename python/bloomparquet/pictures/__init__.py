"""Owns the pictures of filters and of advice, how notebooks show them, and reports as files.

Must not read files: it draws results. The picture of a plan belongs to :mod:`bloomparquet.planning`.
"""
