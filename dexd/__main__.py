"""``python -m dexd`` is the command ``dexd`` [SURF-10]."""

from dexd.cli import main

main()
