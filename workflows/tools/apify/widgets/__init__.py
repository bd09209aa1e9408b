"""The tools whose answers a page shows to the user, and what links them to it."""
