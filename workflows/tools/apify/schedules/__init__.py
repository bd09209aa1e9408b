"""Tools for schedules: Actors and saved tasks that are run at times of a cron expression."""
