"""The cross-check of capacity/tas.py with Kueue's own topology assignment, and the harness that drives the latter."""
