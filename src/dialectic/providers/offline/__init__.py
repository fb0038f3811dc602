"""Models that need no key and no network: they arrange the text they are given.

`reading` parses a prompt, `evidence` chooses what its sources say, `composer` decides what the
document says, `frames` words it with the sentences of `vocabulary.toml`, and `provider` behaves
like a vendor's service around it.
"""
