"""Several workers and API processes on one Temporal server: what bounds them, and what a kill of each costs."""
