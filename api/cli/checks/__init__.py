"""What `outlast doctor` looks at."""
