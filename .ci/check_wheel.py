"""Build the wheel and try it in an empty environment: what users get, not what a checkout has."""

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Each part of the product, by a file that it cannot do without.
EXPECTED = (
    "rightslice/contract/metrics.py",
    "rightslice/facts/gpus.json",
    "rightslice/facts/nic_counters.json",
    "rightslice/exporter/simulate/scenarios/fleet.yaml",
    "rightslice/catalogue/prices.yml",
    "rightslice/api/templates/index.html",
    "rightslice/dashboards/__init__.py",
    "rightslice/advice/py.typed",
)


def run(*command: str | Path) -> str:
    """Run a command to its end; its output."""
    arguments = [str(part) for part in command]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        raise SystemExit(f"failed: {' '.join(arguments)}")
    return done.stdout


def install(python: Path, lock: str, wheel: Path) -> None:
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--require-hashes", "--requirement", ROOT / "deploy" / "lock" / f"{lock}.txt")
    run(*pip, "--no-deps", wheel)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
        wheel = next(Path(folder).glob("*.whl"))
        names = zipfile.ZipFile(wheel).namelist()
        missing = [name for name in EXPECTED if name not in names]
        intruders = [name for name in names if name.endswith(".yml") and "/facts/" in name]
        if missing or intruders or "rightslice/__init__.py" in names:
            raise SystemExit(f"wheel: missing {missing}, not wanted {intruders}")
        environment = Path(folder) / "agent"
        venv.create(environment, with_pip=True)
        install(environment / "bin" / "python", "agent", wheel)
        run(environment / "bin" / "rightslice-exporter", "--help")
        run(environment / "bin" / "python", "-c", "import rightslice.exporter.server")
    sys.stdout.write(f"wheel: {wheel.name} holds {len(names)} files; the agent starts from it\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
