"""Those who answer: one adapter per wire format, and the catalogue of models."""
