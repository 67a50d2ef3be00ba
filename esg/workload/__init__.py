"""Which requests come, and when: rates, mixes, traces and saved arrivals."""
