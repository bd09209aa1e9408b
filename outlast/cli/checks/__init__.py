"""The checks of `outlast doctor`, one module per subject. Those of the API are in `outlast.api.health`."""
