"""The model of the hardware and the planner on it. Pure: no I/O, no clock, no asyncio, no Kubernetes JSON."""
