"""The implementations of the recurrence. `cornn.engine.choose` picks one."""
