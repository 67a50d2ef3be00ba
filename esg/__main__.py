"""`python -m esg`: the `esg` command."""

import sys

from esg.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
