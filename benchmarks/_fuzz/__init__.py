"""Random searches, and what must hold of each of them; a case is known by its number alone."""
