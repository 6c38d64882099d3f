"""For the tests of those who use Tilewright: whether a tuned kernel is still right and as fast as it was recorded."""
