"""Our catalog and the native one on the same root, at the same time."""
