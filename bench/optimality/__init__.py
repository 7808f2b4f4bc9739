"""Is a plan the cheapest that could be promised? Random instances, small enough to be solved by looking at everything."""
