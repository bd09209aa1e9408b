"""Tools for schedules of Outlast's own. Those of the platform are in `schedules`."""
