"""The database: connections, migrations, and the only writers of jobs and records."""
