"""Runs the `moe-lab` command as `python -m moe_lab`."""

from moe_lab.cli import main

if __name__ == "__main__":
    main()
