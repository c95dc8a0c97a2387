"""Jobs for up/down markets on stock prices: opening, settling, delivering."""
