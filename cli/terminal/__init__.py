"""What every command says and how: numbers, colours, live displays, pagers, and nothing that harms a terminal."""
