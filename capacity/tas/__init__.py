"""Kueue's topology-aware scheduling, as Kueue v0.17.0 does it, and what it makes of a plan."""
