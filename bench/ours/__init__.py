"""The product as a contender: its real worker on its real schema, asked the way a person asks."""
