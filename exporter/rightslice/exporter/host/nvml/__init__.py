"""NVML: raw readings in its own units, its errors mapped to ours. One file per kind of object."""
