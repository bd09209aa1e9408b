"""Takeover: another worker follows the runs of a killed one within seconds, not after a heartbeat time-out."""
