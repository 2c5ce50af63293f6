"""``python -m cellfeed`` is the ``cellfeed`` command."""

from ._program import main

main()
