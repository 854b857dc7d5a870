"""What app.py is made of: components, downloads, request limits."""
