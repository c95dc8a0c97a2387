"""The pages: server-rendered from what the API reads, complete without JavaScript; small modules add wallets."""
