"""From a plan to machines: bookings, launches, and the limits and backoff that they keep to."""
