"""What every surface is made of: operations, errors as JSON, rendered bodies, limits, CORS and OpenAPI.

A surface is a `Surface` value: its operations, the paths it answers for and the shape of its errors. `application`
composes any number of them into one aiohttp application.
"""
