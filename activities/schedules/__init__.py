"""Firings of schedules: have what is due started, await it, cancel it, and pause a schedule that may not go on."""
