"""Write files from the database to storage, and delete them from it."""
