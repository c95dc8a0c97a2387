"""The contracts as Python knows them: where they are, their ABIs, their events and their statuses."""
