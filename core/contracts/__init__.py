"""The contracts: deployments, ABIs, events and statuses."""
