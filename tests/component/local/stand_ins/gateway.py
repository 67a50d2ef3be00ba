import sys

from stand_in import run

if __name__ == "__main__":
    sys.exit(run("gateway"))
