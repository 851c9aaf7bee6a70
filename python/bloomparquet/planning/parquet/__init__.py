"""Owns a data set's row groups as arrays, their Bloom filters, and the form in which both are stored."""
