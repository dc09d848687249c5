"""Jobs on several nodes, by what launchers put into the environment of their processes."""

import pytest

from rightslice.exporter.host.net.job_span import are_all_ranks, is_on_several_nodes

CARDS = 8
TORCHRUN = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "GROUP_WORLD_SIZE": "2", "RANK": "3"}
ONE_NODE_TORCHRUN = {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "GROUP_WORLD_SIZE": "1"}
SLURM_JOB = {"SLURM_JOB_NUM_NODES": "2", "SLURM_NNODES": "2"}


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param(TORCHRUN, id="torchrun"),
        pytest.param({"WORLD_SIZE": "16", "LOCAL_SIZE": "8", "CROSS_SIZE": "2"}, id="DeepSpeed"),
        pytest.param({"HOROVOD_SIZE": "4", "HOROVOD_LOCAL_SIZE": "2"}, id="Horovod"),
        pytest.param(
            {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, id="Open MPI"
        ),
        pytest.param({"MV2_COMM_WORLD_SIZE": "4", "MV2_COMM_WORLD_LOCAL_SIZE": "2"}, id="MVAPICH"),
        pytest.param({"PMI_SIZE": "4", "PMI_RANK": "0", "MPI_LOCALNRANKS": "2"}, id="Hydra"),
        pytest.param({"PET_NNODES": "2"}, id="a training operator's pod"),
        pytest.param({"PET_NNODES": "2:4"}, id="of a range the least counts"),
        pytest.param({"SLURM_STEP_NUM_NODES": "2", "SLURM_NNODES": "2"}, id="a step of Slurm's"),
        pytest.param(SLURM_JOB, id="a script of Slurm's"),
        pytest.param({"LWS_GROUP_SIZE": "2"}, id="a leader with workers"),
        pytest.param({"WORLD_SIZE": "16", "RANK": "0"}, id="more ranks than cards"),
    ],
)
def test_a_job_on_several_nodes_is_told(variables: dict[str, str]) -> None:
    assert is_on_several_nodes(variables, CARDS) is True


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param(ONE_NODE_TORCHRUN, id="torchrun"),
        pytest.param(SLURM_JOB | {"SLURM_STEP_NUM_NODES": "1"}, id="a small step of a large job"),
        pytest.param(SLURM_JOB | ONE_NODE_TORCHRUN, id="torchrun alone on each node of a job"),
        pytest.param(
            {"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "8"} | SLURM_JOB,
            id="mpirun on one of the nodes",
        ),
        pytest.param({"PET_NNODES": "1:4"}, id="elastic from one node on"),
    ],
)
def test_a_job_on_one_node_is_told_by_its_innermost_launcher(variables: dict[str, str]) -> None:
    assert is_on_several_nodes(variables, CARDS) is False


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({}, id="nothing, as with Ray"),
        pytest.param({"WORLD_SIZE": "8"}, id="as many ranks as cards"),
        pytest.param({"WORLD_SIZE": "many", "LOCAL_WORLD_SIZE": "8"}, id="no number"),
        pytest.param({"WORLD_SIZE": "0", "LOCAL_WORLD_SIZE": "0"}, id="no ranks"),
        pytest.param({"NNODES": "2"}, id="a name that anybody may use"),
        pytest.param({"PMI_SIZE": "16"}, id="Slurm's PMI without its step"),
    ],
)
def test_what_does_not_settle_it_is_unknown(variables: dict[str, str]) -> None:
    assert is_on_several_nodes(variables, CARDS) is None


def test_ranks_tell_nothing_where_the_cards_are_not_known() -> None:
    assert is_on_several_nodes({"WORLD_SIZE": "16"}, 0) is None


def test_all_ranks_on_one_node_are_seen() -> None:
    ranks = [{"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "RANK": rank} for rank in "01"]

    assert are_all_ranks(ranks) is True
    assert are_all_ranks(ranks[:1]) is False
    assert are_all_ranks([ranks[0], ranks[0]]) is False
    assert are_all_ranks([{}]) is False
