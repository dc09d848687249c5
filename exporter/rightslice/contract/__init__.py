"""What leaves a process: names, units, labels, buckets. Standard library only."""
