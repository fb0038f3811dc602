"""What can be asked of the product: the only writers of what a person wants."""
