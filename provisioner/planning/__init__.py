"""One pass over all requests: whose turn it is, what there is to give, and what each gets."""
