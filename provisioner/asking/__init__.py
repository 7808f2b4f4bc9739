"""Who asks, for what, and whether they may."""
