"""``python -m equigeo``, the command line."""

import sys

import equigeo

if __name__ == "__main__":  # processes that training starts import this file
    sys.exit(equigeo.cli.main())
