"""An independent model of the vested parimutuel, and random histories on which contract and mirror are compared with
it."""
