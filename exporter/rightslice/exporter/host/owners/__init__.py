"""Whose a process is: from its cgroup to a pod, a Slurm job, a container or a user."""
