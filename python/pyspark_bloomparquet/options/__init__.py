"""Owns every option of the data source: its name, default, check and line of documentation."""
