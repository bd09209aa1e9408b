"""Batches: one tool over many inputs. Items are read, admitted one by one, and kept; then their workflow begins."""
