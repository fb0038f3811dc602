"""The use cases of the product. Only they write what a person requests."""
