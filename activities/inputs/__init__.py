"""Large parts of a run's input: kept in the output store, and read only where the run is started."""
