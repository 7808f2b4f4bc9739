"""Does the planner agree with the real kube-scheduler? Generated cases, put to both, at the boundaries where they could differ."""
