"""`outlast schedules`."""
