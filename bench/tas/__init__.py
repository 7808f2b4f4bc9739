"""The cross-check of capacity/tas/guarantee.py with Kueue's own topology assignment, and the harness that drives the latter."""
