"""The pages: rendered on the server from the API's data, complete without JavaScript; small scripts add wallets."""
