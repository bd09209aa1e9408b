"""Tools for schedules: Actors and saved tasks that the platform runs at times of a cron expression."""
