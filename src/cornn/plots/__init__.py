"""Figures: the common style, and those that `cornn fit` and `cornn check` show."""
