"""What :class:`cellfeed.MappedCollection` is made of: its matrices, labels, filters and rows."""
