"""The sleeper: a run that takes as long as it is told to, and ends as it is told to."""
