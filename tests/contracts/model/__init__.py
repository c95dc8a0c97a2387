"""An independent model of the vested parimutuel, and the random histories everything else is compared on."""
