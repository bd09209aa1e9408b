"""Runs that go on instead of being paid again: which calls may have it, and ended tasks whose run is taken up."""
