"""Stand-ins for real clouds, each behind its real protocol."""
