"""The web app: pages for people, made of the public API."""
