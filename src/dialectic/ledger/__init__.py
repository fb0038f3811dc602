"""Money: held before a call, settled with its answer, never twice. `holds`, `wallets`, `audit`."""
