"""Prices and tiers: data files and their loader. Money is Decimal, and an unknown price is None."""
