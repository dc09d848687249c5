"""A reading that failed: the one kind of error that says why in a word."""


class ReadingError(Exception):
    """Something of this machine could not be read.

    `reason` is a word for the label of the counted failure; the text says what, and the remedy.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
