"""What commands show: live progress, quotes, results, graphs."""
