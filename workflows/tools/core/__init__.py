"""Logic that every mode shares: no mode, no presentation of one."""
