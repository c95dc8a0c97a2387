"""ape's command line as a module, so that scripts/_local/forking.py can fork it."""

from ape._cli import cli
from ape.utils.basemodel import ManagerAccessMixin

if __name__ == "__main__":
    cli(prog_name="ape")
elif __name__ == "scripts._stack.ape_command":
    list(ManagerAccessMixin.network_manager.ecosystems)  # imports ape's plugins
