"""Every front door. All of them go through one `TaskClient`."""
