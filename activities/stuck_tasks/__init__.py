"""Ends workflows of tasks and turns that cannot continue: the same step fails again and again."""
