"""What takes the place of nodes that are bad or lost, and warm nodes that go from one gang to the next."""
