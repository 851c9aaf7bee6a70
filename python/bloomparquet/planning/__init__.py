"""Owns the way from evidence to a ScanPlan: which row groups or stripes cannot hold a matching row, and why.

Must not know how rows are read or written.
"""
