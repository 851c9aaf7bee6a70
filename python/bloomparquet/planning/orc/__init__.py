"""Owns a data set's stripes and the row groups in them, their Bloom filters, and the form in which both are stored."""
