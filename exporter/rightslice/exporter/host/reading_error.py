"""A reading that failed: the one kind of error that says why in a word."""


class ReadingError(Exception):
    """Something of this machine could not be read.

    `reason` is a word for the label of the counted failure; the text says what, and the remedy.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def device_gone(name: str) -> ReadingError:
    """Give the error of a device whose files, or whose name, are no more there."""
    return ReadingError("device_gone", f"{name} was removed, or its driver is being loaded anew")
