"""Inputs, results, records and signals of workflows. Recorded histories contain them: a new field needs a default."""
