"""What happened on cards, wherever it is kept: one interface for all who ask."""
