"""The default catalog and its profiles, as data. `esg.core.catalog.file.DEFAULT` points here."""
