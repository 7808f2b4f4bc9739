"""One module a cloud provider behind one protocol (base.py)."""
