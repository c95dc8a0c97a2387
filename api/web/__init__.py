"""The pages: rendered on the server from the API's data, and complete without JavaScript."""
