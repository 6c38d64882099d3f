"""What is built when: ahead of the measuring, long code last, by what a candidate costs."""
