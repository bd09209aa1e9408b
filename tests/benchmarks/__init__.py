"""What Outlast costs, measured against bare Temporal on the same server. `make bench` runs it."""
