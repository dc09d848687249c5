"""Reads scenario files: YAML mappings to values, with a complaint that helps for each wrong one."""
