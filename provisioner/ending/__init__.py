"""Giving back: drains, scale-in, orphans, and what may never be ended."""
