"""Does the planner agree with the real kube-scheduler? Generated cases are put to both, at the edges where they could differ."""
