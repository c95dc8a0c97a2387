"""`POST /trade`, from the request to the receipt: orders, x402, payments, settlement."""
