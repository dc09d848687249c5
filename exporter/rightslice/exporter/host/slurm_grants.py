"""Slurm's jobs as grants: who was given which card, in the shape in which the kubelet tells it."""

from collections.abc import Iterable, Iterator

from rightslice.exporter.host.kubelet.device_ids import DeviceId, parse_device_id
from rightslice.exporter.host.kubelet.grants import Grant, Grants
from rightslice.exporter.host.owners.slurm import JobHolding
from rightslice.exporter.host.owners.workload import SLURM_JOB, Workload

RESOURCE = "gres/gpu"


def grants_of_jobs(jobs: Iterable[JobHolding]) -> Grants:
    """Give the cards of jobs; a job whose cards are not known claims some card."""
    jobs = tuple(jobs)
    known = [job for job in jobs if job.is_known and all(map(parse_device_id, job.uuids))]
    grants = [grant for job in known for grant in _grants(job)]
    claims = frozenset(_workload(job) for job in jobs if job not in known)
    return Grants(
        tuple(sorted(grants, key=lambda grant: (grant.workload, str(grant.device)))), claims
    )


def _grants(job: JobHolding) -> Iterator[Grant]:
    for minor in job.minors:
        yield Grant(_workload(job), DeviceId(minor=minor), RESOURCE)
    for uuid in job.uuids:
        device = parse_device_id(uuid)
        if device is not None:
            yield Grant(_workload(job), device, RESOURCE)


def _workload(job: JobHolding) -> Workload:
    """Name the job as a whole: which of its steps uses a card, its processes tell."""
    return Workload(SLURM_JOB, job.user, job.job_id)
