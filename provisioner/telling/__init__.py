"""What requests and pools are told, in conditions, events and spans."""
