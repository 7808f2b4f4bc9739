"""The fast way for the common gang: one pod set whose pods don't look at other pods, answered straight from the columns."""
