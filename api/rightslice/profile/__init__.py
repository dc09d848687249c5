"""From hours of facts to what a card's use looks like. Pure: no clock, no database, no network."""
