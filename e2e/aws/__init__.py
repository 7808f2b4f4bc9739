"""Corral as a user runs it, with the stand-in for EC2 in place of AWS."""
