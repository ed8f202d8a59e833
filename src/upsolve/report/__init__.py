"""Tables, pictures, one HTML page."""
