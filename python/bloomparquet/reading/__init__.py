"""Owns the way from kept row groups to exactly the matching rows, and the inspection of Bloom filters.

Must not know how files are written, nor print anything.
"""
