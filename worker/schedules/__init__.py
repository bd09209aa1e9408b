"""How what a schedule has started is awaited and cancelled."""
