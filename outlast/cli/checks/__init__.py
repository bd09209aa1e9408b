"""The checks of `outlast doctor`."""
