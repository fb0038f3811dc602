"""Model providers: one adapter per wire format, and the catalogue of models."""
