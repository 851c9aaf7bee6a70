"""Owns the step from a literal and a file's column to bytes, hashes and order. A mistake here skips rows."""
