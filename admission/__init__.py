"""Service 1: the Kueue AdmissionCheck controller `corral.dev/capacity`."""
