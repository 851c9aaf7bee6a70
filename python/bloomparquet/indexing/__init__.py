"""Owns making the index of a data set: its columns, its segments, and the commit that makes segments part of it.

Must not know how a plan uses an index.
"""
