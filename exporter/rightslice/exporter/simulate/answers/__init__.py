"""What the simulated driver answers: one file for each subject, tables by the C function's name."""
