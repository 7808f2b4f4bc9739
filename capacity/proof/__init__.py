"""Whether a plan holds in every order of scheduling, apart from the search that made it."""
