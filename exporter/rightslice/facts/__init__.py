"""Hardware facts as data: cards, MIG profiles, vGPU types. Standard library only."""
