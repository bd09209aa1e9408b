"""The embedded stack: everything Outlast needs, as supervised processes on this machine."""
