"""The embedded stack: everything that Outlast needs, as supervised processes on this machine."""
