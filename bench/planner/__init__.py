"""How fast and how cheap plans are beside those of Cluster Autoscaler, Kueue and Karpenter, on the same input in the same run."""
