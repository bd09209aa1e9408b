"""Writing objects of the platform's API: saved tasks, schedules."""
