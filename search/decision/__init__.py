"""How a search ends: the best timed in pairs, who wins, what is said and stored of it, and what a schedule's options are worth."""
