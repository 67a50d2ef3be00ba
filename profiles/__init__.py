"""The default catalog and its profiles, as data. `esg.catalog_file.DEFAULT` points here."""
