"""Read uploaded files as text. Knows the formats, not what the text is used for."""
