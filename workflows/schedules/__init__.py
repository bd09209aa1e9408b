"""The workflow that a schedule starts when it is due."""
