"""The format of stored outputs: locators, manifests, parts and frames (docs/output-format.md). No I/O."""
