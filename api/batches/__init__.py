"""Batches: one tool over many inputs. Items are read, admitted one by one, and stored before the workflow starts."""
