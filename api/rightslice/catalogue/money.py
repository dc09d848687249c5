"""Amounts of money that may be a range or an estimate, exact to the last digit."""

from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

CENT = Decimal("0.01")
MONTHS_PER_YEAR = 12


@dataclass(frozen=True, slots=True)
class Money:
    """An amount between `low` and `high` (equal where the price is one number) in one currency.

    `is_estimate` marks what no price list prints; it stays with every amount computed from it.
    Mixing currencies raises ValueError: there is no rate to convert with.
    """

    low: Decimal
    high: Decimal
    currency: str
    is_estimate: bool = False

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"range is upside down: {self.low} to {self.high}")

    @classmethod
    def exactly(cls, amount: Decimal | int, currency: str) -> "Money":
        """Make an amount that is one number."""
        return cls(Decimal(amount), Decimal(amount), currency)

    @property
    def is_range(self) -> bool:
        return self.low != self.high

    @property
    def middle(self) -> Decimal:
        """The middle of the range, to order candidates by; never shown as a price."""
        return (self.low + self.high) / 2

    def __add__(self, other: "Money") -> "Money":
        return self._with(other, self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Money") -> "Money":
        """Subtract: the lowest difference is the lowest amount less the highest."""
        return self._with(other, self.low - other.high, self.high - other.low)

    def _with(self, other: "Money", low: Decimal, high: Decimal) -> "Money":
        if self.currency != other.currency:
            raise ValueError(f"cannot mix {self.currency} and {other.currency}")
        return Money(low, high, self.currency, self.is_estimate or other.is_estimate)

    def times(self, factor: Decimal | Fraction | int) -> "Money":
        """Multiply by a factor that is not negative; multiplies before it divides."""
        ratio = Fraction(factor)
        if ratio < 0:
            raise ValueError(f"factor must not be negative, got {factor}")
        numerator, denominator = Decimal(ratio.numerator), Decimal(ratio.denominator)
        return replace(
            self, low=self.low * numerator / denominator, high=self.high * numerator / denominator
        )

    def rounded(self) -> "Money":
        """Round to cents, for showing; sums are made before."""
        return replace(
            self,
            low=self.low.quantize(CENT, ROUND_HALF_EVEN),
            high=self.high.quantize(CENT, ROUND_HALF_EVEN),
        )
