"""How a stored output is laid out: frames, parts, the manifest, locators."""
