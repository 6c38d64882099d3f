"""What groups of threads need: barriers where they would disturb one another, and partial results brought together."""
