"""Child processes: started, watched, restarted, stopped, and never left behind."""
