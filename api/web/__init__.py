"""The pages. They are rendered on the server from the API's data and are complete without JavaScript; small scripts add
wallets."""
