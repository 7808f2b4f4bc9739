"""A small controller-runtime for asyncio. Knows Kubernetes, knows nothing of capacity."""
