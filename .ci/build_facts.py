"""Turn the YAML fact files into the JSON that ships with the node agent.

The agent must not depend on a YAML parser; people must not edit facts without room for remarks.
`--check` changes nothing and fails when a JSON file is not what its YAML says.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml

FACTS = Path(__file__).resolve().parent.parent / "exporter" / "rightslice" / "facts"


def built(source: Path) -> str:
    """Give the JSON text of one fact file: sorted keys, one row per line, no remarks."""
    facts: dict[str, Any] = yaml.safe_load(source.read_text(encoding="utf-8"))
    return json.dumps(facts, ensure_ascii=False, sort_keys=True, indent=1) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    stale = []
    for source in sorted(FACTS.glob("*.yml")):
        target, text = source.with_suffix(".json"), built(source)
        if target.exists() and target.read_text(encoding="utf-8") == text:
            continue
        stale.append(target.name)
        if not check:
            target.write_text(text, encoding="utf-8")
    if check and stale:
        print(f"stale: {', '.join(stale)}; run ./run generate", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
