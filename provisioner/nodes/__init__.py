"""A booking's nodes: their marks, and whether they are what was promised."""
