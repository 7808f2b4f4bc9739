"""Another model of kube-scheduler 1.36, small and exact, that the planner is judged by. It shares no code with the planner."""
