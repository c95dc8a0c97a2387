"""What every surface is made of: operations, errors as JSON, rendered bodies, limits, CORS and OpenAPI.

A surface is a `Surface` value: its operations, the paths it answers for and the shape of its errors. `application`
composes any number of them into one aiohttp application.
"""

from api.http.application import application
from api.http.operation import Answer, Cors, Operation, Surface
from api.http.problem import Problem
from api.http.rendered import Rendered, Slot

__all__ = ["Answer", "Cors", "Operation", "Problem", "Rendered", "Slot", "Surface", "application"]
