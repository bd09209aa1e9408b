"""What a killed worker followed is followed on by another one within seconds, not after a heartbeat time-out."""
