"""Real certificates for loopback servers, made by openssl."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that signs itself, and its key."""

    cert_file: Path
    key_file: Path


def self_signed(folder: Path, name: str = "exporter.test", *, address: str = "") -> Certificate:
    """Make a certificate for a name, and for an address where one is given."""
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    names = f"DNS:{name}" + (f",IP:{address}" if address else "")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}"),
            *("-keyout", str(made.key_file), "-out", str(made.cert_file)),
        ],
        check=True,
        capture_output=True,
    )
    return made
