"""`python -m moe_lab` is `moe-lab`."""

from moe_lab.cli import main

if __name__ == "__main__":
    main()
