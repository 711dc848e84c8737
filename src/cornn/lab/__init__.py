"""The laboratory: the paper's experiments, their data, recipes, records and reports.

Nothing outside `cornn.lab` and `cornn.cli` needs it.
"""
