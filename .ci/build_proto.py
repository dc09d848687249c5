"""Turn the .proto files into the Python modules and type stubs beside them.

`--check` changes nothing and fails when a module is not what its .proto says.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]  # ships no types

ROOT = Path(__file__).resolve().parent.parent / "exporter"
# What a generator wrote is neither checked nor formatted.
HEADER = b"# ruff: noqa\n# fmt: off\n# mypy: ignore-errors\n"


def compile_all(target: Path) -> list[Path]:
    """Write the modules and stubs of all .proto files below `target`; give their paths in it."""
    sources = [str(source.relative_to(ROOT)) for source in sorted(ROOT.rglob("*.proto"))]
    flags = [f"--proto_path={ROOT}", f"--python_out={target}", f"--pyi_out={target}"]
    if protoc.main(["protoc", *flags, *sources]) != 0:
        sys.exit("build_proto: protoc failed")
    return sorted(path.relative_to(target) for path in target.rglob("*_pb2.py*"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    stale = []
    with tempfile.TemporaryDirectory() as folder:
        for path in compile_all(Path(folder)):
            text, target = HEADER + (Path(folder) / path).read_bytes(), ROOT / path
            if target.exists() and target.read_bytes() == text:
                continue
            stale.append(target.name)
            if not check:
                target.write_bytes(text)
    if check and stale:
        print(f"stale: {', '.join(stale)}; run ./run generate", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
