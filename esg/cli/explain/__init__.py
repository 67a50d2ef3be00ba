"""`esg plan`: why this config?"""
