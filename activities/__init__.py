"""The ground floor: everything that touches the outside world, and the contracts of doing so."""
