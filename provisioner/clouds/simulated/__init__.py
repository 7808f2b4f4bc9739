"""The simulated cloud: a server that behaves like a real one, on purpose also at its worst, and its client."""
