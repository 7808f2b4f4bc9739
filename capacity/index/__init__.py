"""The nodes and offerings of a snapshot by columns, kept up from one snapshot to the next."""
