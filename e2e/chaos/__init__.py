"""Seeded chaos on the real control plane: a stream of gangs, a stream of faults, and a judge that watches the whole run."""
