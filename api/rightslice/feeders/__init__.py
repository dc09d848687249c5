"""What fills the ledger: the embedded scraper and Prometheus, through the same mappings."""
