"""What the parts of a node that are no card have in common, for who reads them in rounds."""


class NodePart:
    """A part that keeps nothing between rounds, and is there as long as the node is."""

    id = ""
    # The lane of all that asks the driver nothing.
    lane = "node"
    is_up = True
    # Whether a call of its may be inside the driver's library.
    asks_driver = True

    def begin_round(self) -> None:
        """Nothing is kept between rounds."""
