"""Ends tasks and turns whose workflow cannot go on: it fails in the same step again and again."""
