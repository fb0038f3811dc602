"""Documents in pieces, as vectors and words: cut, embedded once, found again. Knows no money."""
