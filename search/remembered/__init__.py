"""What a search takes from the cache and gives it: answers, starts, measurements, and how thorough they were."""
