"""One module per table or group of tables: the only writers of rows."""
