"""Whether a process is part of a job on several nodes, by what its launcher told it."""

import re
from collections.abc import Iterable, Mapping

WORLD, RANK = "WORLD_SIZE", "RANK"
# How many ranks there are, and how many of them are here: the innermost launcher comes first.
RANK_COUNTS = (
    (WORLD, "LOCAL_WORLD_SIZE"),  # torchrun, and what is built on it
    (WORLD, "LOCAL_SIZE"),  # DeepSpeed
    ("HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_SIZE", "MPI_LOCALNRANKS"),  # Hydra: MPICH and Intel MPI
)
# How many nodes, agents or pods there are. A step of Slurm's may have fewer nodes than its job.
NODE_COUNTS = (
    "GROUP_WORLD_SIZE",
    "PET_NNODES",
    "SLURM_STEP_NUM_NODES",
    "SLURM_NNODES",
    "SLURM_JOB_NUM_NODES",
    "LWS_GROUP_SIZE",
)
SPAN_NAMES = frozenset((*(name for pair in RANK_COUNTS for name in pair), *NODE_COUNTS, RANK))
# torchrun's may be a range, such as "2:4", of which the first is the least.
COUNT = re.compile(r"\s*([0-9]{1,7})(?::[0-9]{1,7})?\s*")


def is_on_several_nodes(variables: Mapping[str, str], card_count: int) -> bool | None:
    """Tell it by a process's environment; None where that does not settle it.

    The number of ranks alone settles it if this node has fewer cards, of which each rank needs one.
    """
    for everywhere, here in RANK_COUNTS:
        rank_count, local_count = _count(variables, everywhere), _count(variables, here)
        if rank_count and local_count:
            return rank_count > local_count
    for name in NODE_COUNTS:
        if node_count := _count(variables, name):
            return node_count > 1
    rank_count = _count(variables, WORLD)
    return True if rank_count and 0 < card_count < rank_count else None


def are_all_ranks(environments: Iterable[Mapping[str, str]]) -> bool:
    """Tell whether these processes are a whole job: two agents of torchrun may share a node."""
    environments = list(environments)
    ranks = {variables[RANK] for variables in environments if RANK in variables}
    rank_count = max((_count(each, WORLD) or 0 for each in environments), default=0)
    return 0 < rank_count <= len(ranks)


def _count(variables: Mapping[str, str], name: str) -> int | None:
    match = COUNT.fullmatch(variables.get(name, ""))
    return int(match[1]) if match else None
