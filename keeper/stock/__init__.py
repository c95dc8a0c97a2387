"""Up/down markets on stock prices: sessions, opening, settling, delivering."""
