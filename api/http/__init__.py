"""What every surface is made of: operations, errors as JSON, rendered bodies, limits, CORS and OpenAPI.

A surface is a `Surface` value: its operations, the paths it answers for and the shape of its errors. `application`
composes any number of them into one aiohttp application.
"""

from api.http.application import application
from api.http.operation import Cors, DocumentedAnswer, Operation, Surface
from api.http.problem import Problem
from api.http.rendered import BodySlot, Rendered

__all__ = ["BodySlot", "Cors", "DocumentedAnswer", "Operation", "Problem", "Rendered", "Surface", "application"]
