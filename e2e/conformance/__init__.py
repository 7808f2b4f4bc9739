"""The conformance table: what Kueue's own provisioning check does, what Corral's does, and what the real Kueue was seen to do.

`python -m e2e.conformance` (`make conformance`) runs every test that claims a row and writes docs/conformance.md.
"""
