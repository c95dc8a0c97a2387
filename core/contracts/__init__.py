"""Contract deployments, ABIs, events and statuses."""
