"""Typed views of the Kubernetes objects that Corral reads and writes; the only place that knows their field names."""
