"""Service 2: serves ProvisioningRequests of class `gang.corral.dev`."""
