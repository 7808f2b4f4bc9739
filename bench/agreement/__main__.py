"""Command line of the agreement experiment."""
