"""`python -m polhode`: the command without its script."""

from polhode.cli import main

if __name__ == "__main__":
    main()
