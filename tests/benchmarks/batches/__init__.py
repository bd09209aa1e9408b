"""Benchmarks of batches: beside single calls, and while everything is killed."""
