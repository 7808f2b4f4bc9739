"""Workloads of every kind that Kueue admits, as users write them, and where their operators read what Kueue made of them."""
