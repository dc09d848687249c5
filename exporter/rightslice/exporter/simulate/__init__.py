"""A simulated node: what no build machine has, simulated at the binding's C boundary only."""
