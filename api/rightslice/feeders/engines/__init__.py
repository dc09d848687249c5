"""How serving engines fare, from their own metrics."""
