"""`make demo`: real Jobs in a real Kueue get capacity whole or not at all, and every promise is checked at the end."""
