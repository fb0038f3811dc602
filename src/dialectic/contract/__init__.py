"""Every request, response, event and problem, defined once for API, client and command line."""
