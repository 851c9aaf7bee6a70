"""Owns making the index of a data set: which columns it has, its segments, and when they become part of it.

Must not know how a plan uses an index.
"""
