"""`outlast batch`: one tool for many inputs."""
