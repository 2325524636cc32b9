"""How an encoder's vectors lie in space, and how they are compared."""
