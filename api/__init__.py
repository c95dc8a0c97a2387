"""The public HTTP service: one origin for the stock, agent and cup surfaces, their documentation and the pages."""
