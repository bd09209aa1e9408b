"""How much one caller, or one address, may ask of the API at once."""
