"""Files from the database into storage, and out of it again."""
