"""The search for gangs of all kinds: what ties their pods, the ways to keep it, and an integer programme for each."""
