"""Load and latency of admission beside Kueue's own provisioning check, on a real control plane with an instant provisioner."""
