"""Memory that ran out: the words of frameworks, the kernel's kills, and the logs that hold them."""
