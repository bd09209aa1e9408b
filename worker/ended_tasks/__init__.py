"""Ended tasks, as what comes after them reads them."""
