"""Finding and mending what crashes and other writers leave."""
