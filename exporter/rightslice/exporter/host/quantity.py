"""Kubernetes quantities, such as "131788776Ki" or "100m", as whole numbers."""

import re

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
# The digits are bounded: "1e999999999" must not cost a gigabyte.
QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,2}))?"
)
DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY_EXPONENTS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Kubernetes caps what is larger.
LARGEST = 2**63 - 1


def parse_quantity(text: str) -> int | None:
    """Give the number, rounded away from zero as Kubernetes does; None for what is no quantity."""
    match = QUANTITY.fullmatch(text)
    if match is None:
        return None
    whole, _, decimals = match["number"].partition(".")
    ten_exponent = _ten_exponent(match["suffix"], match["exponent"]) - len(decimals)
    size: int = int(whole + decimals) * 2 ** BINARY_EXPONENTS.get(match["suffix"] or "", 0)
    size = size * 10**ten_exponent if ten_exponent >= 0 else -(-size // 10**-ten_exponent)
    size = min(size, LARGEST)
    return -size if match["sign"] == "-" else size


def _ten_exponent(suffix: str | None, exponent: str | None) -> int:
    return int(exponent) if exponent else DECIMAL_EXPONENTS.get(suffix or "", 0)
