"""What workflows are given, record and signal. Recorded histories hold it: a new field gets a default."""
