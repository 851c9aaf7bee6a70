"""Owns reading exactly the matching rows of the row groups that a plan keeps, and the inspection of Bloom filters.

Must not know how files are written, nor print anything.
"""
