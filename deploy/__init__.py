"""Deployment of Outlast: the embedded stack, and files for clusters."""
