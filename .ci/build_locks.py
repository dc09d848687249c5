"""Resolve the dependencies anew into deploy/lock: pinned, with hashes, without a registry's name.

Three locks, each with what the one before has: agent (a node), service (the demo and the service),
dev (the tests). Resolved on the oldest Python that is supported.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "deploy" / "lock"
# What `pip install --no-build-isolation --editable` needs.
BUILD = ["hatchling>=1.27", "editables>=0.5"]


def requirements() -> dict[str, list[str]]:
    """Read what each lock has to satisfy."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    agent = [*project["project"]["dependencies"], *extras["kubernetes"]]
    service = [*agent, *extras["api"], *extras["simulate"], *BUILD]
    dev = [*service, *extras["dashboards"], *project["dependency-groups"]["dev"]]
    return {"agent": agent, "service": service, "dev": dev}


def main() -> int:
    constraint: list[str] = []
    # The largest first, so that the smaller ones agree with it.
    for name, wanted in sorted(requirements().items(), key=lambda item: -len(item[1])):
        target = LOCKS / f"{name}.txt"
        source = LOCKS / f"{name}.in"
        source.write_text("\n".join(sorted(set(wanted))) + "\n", encoding="utf-8")
        subprocess.run(
            [
                sys.executable,
                *("-m", "piptools", "compile", "--quiet", "--generate-hashes", "--strip-extras"),
                *("--no-header", "--no-annotate", "--allow-unsafe"),
                *("--no-emit-index-url", "--no-emit-trusted-host", "--no-emit-find-links"),
                *constraint,
                *("--output-file", str(target), str(source)),
                *sys.argv[1:],
            ],
            check=True,
            cwd=LOCKS,
        )
        source.unlink()
        constraint = ["--constraint", str(LOCKS / "dev.txt")]
    return 0


if __name__ == "__main__":
    sys.exit(main())
