"""Reuse: equal calls of one caller meet one task, which runs or has answered already.

`reuse_rules` decides whether a call may, and what it is equal to; `generations` finds the task, or starts the next.
"""
