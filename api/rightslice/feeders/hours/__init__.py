"""What the ledger's hours are made of, whoever told it: builders, closure, merging."""
